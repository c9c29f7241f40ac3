"""Figures of Ray's jobs, for comparison with ours."""

from __future__ import annotations

from runspine.bench.kit.figures import Report, spread
from runspine.bench.peers.ray_jobs import Jobs


def report_jobs(report: Report, found: Jobs | str, burst: int) -> None:
    if isinstance(found, str):
        for group in ("done", "admissions"):
            what = {"done": "submit → done, Ray Jobs", "admissions": "admissions, Ray Jobs"}[group]
            report.add(what, float("nan"), "", group=group, who="Ray Jobs", context=f"not measured: {found}")
        return
    report.add("submit → seen running, Ray Jobs, p50", unit="ms", **spread(found.running, 1000))
    report.add(
        "submit → done, Ray Jobs, p50", unit="ms", group="done", who="Ray Jobs", **spread(found.done, 1000)
    )
    if burst:
        report.add(
            "admissions, Ray Jobs", burst / found.admitted, "runs/s", group="admissions", who="Ray Jobs",
            context=f"{burst} jobs from 16 clients; all done after {found.together:.1f} s",
        )  # fmt: skip

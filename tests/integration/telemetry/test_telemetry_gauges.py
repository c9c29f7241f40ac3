"""Prometheus metrics of the telemetry service follow what happens."""

from __future__ import annotations

import re
import urllib.request

from runspine.eventlog.publisher import MESSAGE_ID
from runspine.eventlog.subjects import telemetry_subject
from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.telemetry import Archived, step_batch, steps
from tests.kit.waiting import eventually


def gauges(address: str) -> dict[str, float]:
    page = urllib.request.urlopen(f"http://{address}/metrics", timeout=60).read().decode()
    lines = [line.rsplit(" ", 1) for line in page.splitlines() if line and not line.startswith("#")]
    return {name: float(value) for name, value in lines}


async def test_every_gauge_of_ingest_moves(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    # What comes waits for a commit until there is a MiB of it.
    service = archived.start(RUNSPINE_INGEST_COMMIT_SECONDS="600", RUNSPINE_INGEST_COMMIT_MIB="1")
    async with archived.stub(service) as stub:
        before = gauges(service.metrics)
        await archived.emit(run_id, steps=step_batch(steps("a", 0, [1.0] * 100, 0)))
        await archived.emit(run_id, number=1, again=1, steps=step_batch(steps("a", 0, [1.0] * 100, 0)))
        await archived.rig.publisher.publish(
            telemetry_subject(run_id, 1, "step"), b"\xff", {MESSAGE_ID: "strange"}
        )

        async def waiting() -> bool:
            return gauges(service.metrics)["runspine_ingest_lag_messages"] == 3

        await eventually(waiting)
        held = gauges(service.metrics)
        assert held["runspine_ingest_buffered_bytes"] > 0
        assert held["runspine_ingest_leading"] == 1
        for n in range(2):
            block = steps("b", 0, [1.0] * 25_000, 100 + 25_000 * n)
            position = await archived.emit(run_id, steps=step_batch(block))
        await archived.archived_to(position)
        await stub.QueryMetrics(wire.QueryMetricsRequest(run_id=run_id, names=["step/reward"]))

        async def received() -> bool:
            return gauges(service.metrics)["runspine_ingest_lag_messages"] == 0

        await eventually(received)
        after = gauges(service.metrics)
    moved = {
        'runspine_ingest_rows_total{kind="steps"}': 50_100,
        'runspine_ingest_batches_total{kind="steps"}': 3,
        "runspine_ingest_duplicates_total": 1,
        "runspine_ingest_malformed_total": 1,
        "runspine_ingest_commits_total": 1,
        "runspine_ingest_commit_seconds_count": 1,
        "runspine_ingest_batch_age_seconds_count": 2,
        'runspine_segment_bytes_count{kind="steps"}': 1,
        'runspine_call_seconds_count{method="QueryMetrics"}': 1,
    }
    assert {name: after.get(name, 0) - before.get(name, 0) for name in moved} == moved
    assert after["runspine_ingest_bytes_total"] > before["runspine_ingest_bytes_total"]
    assert after["runspine_ingest_buffered_bytes"] == 0


async def test_no_gauge_names_a_run_and_names_follow_the_rules(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    await archived.archived_to(await archived.emit(run_id, steps=step_batch(steps("a", 0, [1.0], 0))))
    page = urllib.request.urlopen(f"http://{service.metrics}/metrics", timeout=60).read().decode()
    assert run_id not in page
    ours = re.findall(r"^# TYPE (runspine_\w+) (\w+)$", page, re.MULTILINE)
    assert len(ours) > 15
    for name, kind in ours:
        if kind == "counter":
            assert name.endswith("_total"), name
        if kind == "histogram":
            assert name.endswith(("_seconds", "_bytes")), name

"""Storage sections of the fleet page: usage of the bucket, and retention rules."""

from __future__ import annotations

from nicegui import ui

from runspine.services.dashboard.edges.backend import Access
from runspine.services.dashboard.pages.elements.integrity import retained_text
from runspine.services.dashboard.pages.elements.tables import plain_table
from runspine.text.artifacts import janitor_text, pruned_text, runs_with_text
from runspine.text.values import size, span
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.facts_pb2 import RetentionProfile

MAX_RUNS = 12


async def get_storage(access: Access) -> tuple[wire.GetUsageResponse, wire.GetRetentionResponse]:
    return (
        await access.call("artifacts", "GetUsage", wire.GetUsageRequest()),
        await access.call("artifacts", "GetRetention", wire.GetRetentionRequest()),
    )


def draw_storage(usage: wire.GetUsageResponse, rules: wire.GetRetentionResponse) -> None:
    _bucket(usage)
    _retention(rules)


def draw_storage_error(error: str) -> None:
    ui.label("Storage").classes("rs-section")
    ui.label(error).classes("rs-bad")


def _bucket(usage: wire.GetUsageResponse) -> None:
    ui.label("Bucket").classes("rs-section")
    rows = [
        {"what": item.name, "objects": f"{item.objects:,}", "bytes": size(item.bytes)}
        for item in usage.bucket
    ]
    with ui.element("div").classes("rs-cards"):
        if rows:
            plain_table(rows)
        kinds = [
            {"artifacts": item.name, "files": f"{item.objects:,}", "bytes": size(item.bytes)}
            for item in usage.kinds
        ]
        if kinds:
            plain_table(kinds)
    details = []
    if usage.HasField("disk"):
        details.append(f"{size(usage.disk.free)} of {size(usage.disk.total)} free on its disk")
    if usage.shared_bytes:
        details.append(f"{size(usage.shared_bytes)} shared by several runs and stored once")
    scrub = usage.scrub
    if scrub.number:
        details.append(f"scrub {scrub.number}: {scrub.objects:,} objects verified, {scrub.corrupt:,} corrupt")
    if details:
        ui.label(" · ".join(details)).classes("rs-quiet")


def _retention(rules: wire.GetRetentionResponse) -> None:
    ui.label("Retention").classes("rs-section")
    if not rules.profiles:
        ui.label("No rules are set: everything is kept. To set one: runspine retention set").classes(
            "rs-quiet"
        )
    for scoped in rules.profiles:
        ui.label(f"{scoped.scope}: {_profile(scoped.profile)}").classes("rs-rule")
    for counted in rules.runs_with:
        ui.label(f"{counted.scope}: {runs_with_text(counted)}").classes("rs-quiet")
    ui.label(janitor_text(rules.janitor)).classes("rs-quiet")
    pruned = [status for status in rules.statuses if any(kind.retained < kind.total for kind in status.kinds)]
    for status in pruned[:MAX_RUNS]:
        with ui.row().classes("items-center gap-2"):
            ui.link(status.run_name or status.run_id, f"/run/{status.run_id}?tab=files")
            ui.label(f"{retained_text(status)} · {pruned_text(status)}").classes("rs-quiet")


def _profile(profile: RetentionProfile) -> str:
    """The limits of a profile, by name."""
    limits = []
    for field, value in profile.ListFields():
        name = field.name.replace("_", " ")
        if field.name.endswith("bytes"):
            limits.append(f"{name} {size(value)}")
        elif field.name.endswith("seconds"):
            limits.append(f"{name.removesuffix(' seconds')} {span(value)}")
        else:
            limits.append(f"{name} {value}")
    return ", ".join(limits) or "no limit"

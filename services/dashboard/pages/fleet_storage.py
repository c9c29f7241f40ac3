"""What lies in S3, by what it is, and what the rules keep of it."""

from __future__ import annotations

from nicegui import ui

from runspine.cli.text import size, span
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.facts_pb2 import RetentionProfile
from services.dashboard.edges.backend import Access
from services.dashboard.pages.integrity import retained_words
from services.dashboard.pages.tables import plain_table

MOST_RUNS = 12


async def ask_storage(access: Access) -> tuple[wire.GetUsageResponse, wire.GetRetentionResponse]:
    return (
        await access.ask("artifacts", "GetUsage", wire.GetUsageRequest()),
        await access.ask("artifacts", "GetRetention", wire.GetRetentionRequest()),
    )


def draw_storage(usage: wire.GetUsageResponse, rules: wire.GetRetentionResponse) -> None:
    _bucket(usage)
    _retention(rules)


def draw_storage_trouble(error: str) -> None:
    ui.label("Storage").classes("rs-section")
    ui.label(error).classes("rs-bad")


def _bucket(usage: wire.GetUsageResponse) -> None:
    ui.label("The bucket").classes("rs-section")
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
    said = []
    if usage.HasField("disk"):
        said.append(f"{size(usage.disk.free)} of {size(usage.disk.total)} free on its disk")
    if usage.shared_bytes:
        said.append(f"{size(usage.shared_bytes)} kept once for several runs")
    scrub = usage.scrub
    if scrub.number:
        said.append(f"check {scrub.number}: {scrub.objects:,} objects read again, {scrub.corrupt:,} corrupt")
    if said:
        ui.label(" · ".join(said)).classes("rs-quiet")


def _retention(rules: wire.GetRetentionResponse) -> None:
    ui.label("What is kept").classes("rs-section")
    if not rules.profiles:
        ui.label("No rules are set: everything is kept. Set some with: runspine retention set").classes(
            "rs-quiet"
        )
    for scoped in rules.profiles:
        ui.label(f"{scoped.scope}: {_profile(scoped.profile)}").classes("rs-rule")
    pruned = [status for status in rules.statuses if any(kind.retained < kind.total for kind in status.kinds)]
    for status in pruned[:MOST_RUNS]:
        with ui.row().classes("items-center gap-2"):
            ui.link(status.run_name or status.run_id, f"/run/{status.run_id}?tab=files")
            ui.label(retained_words(status)).classes("rs-quiet")


def _profile(profile: RetentionProfile) -> str:
    """The limits that are set, by name."""
    said = []
    for field, value in profile.ListFields():
        name = field.name.replace("_", " ")
        if field.name.endswith("bytes"):
            said.append(f"{name} {size(value)}")
        elif field.name.endswith("seconds"):
            said.append(f"{name.removesuffix(' seconds')} {span(value)}")
        else:
            said.append(f"{name} {value}")
    return ", ".join(said) or "no limit"

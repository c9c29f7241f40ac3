"""Draw the Grafana dashboards: `python deploy/grafana/draw.py` writes deploy/grafana/dashboards/*.json."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCE = {"type": "prometheus", "uid": "prometheus"}
WIDTH = 24


@dataclass(frozen=True)
class Panel:
    """A chart, or one number (`kind="stat"`). Queries are pairs of PromQL and legend."""

    title: str
    queries: list[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    note: str = ""
    stacked: bool = False
    # Steps of colour, from the lowest value up: (from, colour).
    steps: list[tuple[float, str]] = field(default_factory=list)

    @property
    def height(self) -> int:
        return 4 if self.kind == "stat" else 8

    def drawn(self, number: int, x: int, y: int) -> dict[str, Any]:
        defaults: dict[str, Any] = {"unit": self.unit}
        if self.steps:
            first = {"value": None, "color": "green"}
            rest = [{"value": value, "color": colour} for value, colour in self.steps]
            defaults["thresholds"] = {"mode": "absolute", "steps": [first, *rest]}
        if self.kind == "timeseries":
            defaults["min"] = 0
            defaults["custom"] = {
                "fillOpacity": 30 if self.stacked else 8,
                "lineWidth": 1,
                "showPoints": "never",
                "stacking": {"mode": "normal" if self.stacked else "none"},
            }
        return {
            "id": number,
            "type": self.kind,
            "title": self.title,
            "description": self.note,
            "datasource": SOURCE,
            "gridPos": {"x": x, "y": y, "w": self.width, "h": self.height},
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "options": _options(self.kind),
            "targets": [
                {"refId": chr(65 + n), "datasource": SOURCE, "expr": expr, "legendFormat": legend}
                for n, (expr, legend) in enumerate(self.queries)
            ],
        }


def _options(kind: str) -> dict[str, Any]:
    if kind == "stat":
        return {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"}
    return {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}}


def dashboard(uid: str, title: str, panels: list[Panel]) -> dict[str, Any]:
    """Panels laid out from left to right, in rows."""
    x = y = row = 0
    drawn = []
    for number, panel in enumerate(panels, start=1):
        if x + panel.width > WIDTH:
            x, y, row = 0, y + row, 0
        drawn.append(panel.drawn(number, x, y))
        x, row = x + panel.width, max(row, panel.height)
    return {
        "uid": f"runspine-{uid}",
        "title": title,
        "tags": ["runspine"],
        "timezone": "browser",
        "editable": False,
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "schemaVersion": 39,
        "links": [{"type": "dashboards", "tags": ["runspine"], "title": "Runspine", "asDropdown": True}],
        "panels": drawn,
    }


def stat(title: str, query: str, unit: str = "short", steps: list[tuple[float, str]] | None = None) -> Panel:
    return Panel(title, [(query, "")], unit, kind="stat", width=4, steps=steps or [])


RED_FROM_ONE = [(1.0, "red")]

FLEET = [
    stat("Workers online", 'runspine_workers{state="online"}'),
    stat("Runs waiting", "sum(runspine_queue_runs)", steps=[(50, "yellow"), (500, "red")]),
    stat("Runs running", 'sum(runspine_open_runs{phase="running"})'),
    stat("Stale runs", 'sum(runspine_open_runs{phase="stale"})', steps=RED_FROM_ONE),
    stat("Slots free", "sum(runspine_worker_slots) - sum(runspine_worker_busy)"),
    stat("Services unwell", "count(runspine_healthy == 0) or vector(0)", steps=RED_FROM_ONE),
    Panel(
        "Open runs, by phase", [("sum by (phase) (runspine_open_runs)", "{{phase}}")], stacked=True, width=12
    ),
    Panel("Runs that wait, by pool", [("sum by (pool) (runspine_queue_runs)", "{{pool}}")], width=12),
    Panel("Slots", [("sum(runspine_worker_slots)", "all"), ("sum(runspine_worker_busy)", "busy")]),
    Panel(
        "Attempts that ended, per minute",
        [("sum by (outcome) (rate(runspine_worker_attempts_total[5m])) * 60", "{{outcome}}")],
    ),
    Panel(
        "Offers answered, per minute",
        [("sum by (answer) (rate(runspine_worker_offers_total[5m])) * 60", "{{answer}}")],
    ),
    Panel("Workers", [("runspine_workers", "{{state}}")], stacked=True),
    Panel(
        "Facts written by the orchestrator, per second",
        [("sum by (kind) (rate(runspine_run_facts_total[5m]))", "{{kind}}")],
        unit="ops",
    ),
    Panel(
        "Health of each process", [("runspine_healthy", "{{service}} {{instance}}")], note="1: well, 0: not"
    ),
    Panel(
        "Answers to calls, 95 of 100 within",
        [
            (
                "histogram_quantile(0.95, sum by (le, method) (rate(runspine_call_seconds_bucket[5m])))",
                "{{method}}",
            )
        ],
        unit="s",
        width=12,
    ),
    Panel(
        "Calls, per second",
        [("sum by (method) (rate(runspine_call_seconds_count[5m]))", "{{method}}")],
        unit="ops",
        width=12,
    ),
]

PIPELINE = [
    stat("Steps, per second", "sum(rate(runspine_worker_steps_total[1m]))", "ops"),
    stat("Batches that wait", "sum(runspine_ingest_lag_messages)", steps=[(1000, "yellow"), (5000, "red")]),
    stat(
        "Spool, fullest",
        "max(runspine_worker_spool_bytes / runspine_worker_spool_limit_bytes)",
        "percentunit",
        [(0.5, "yellow"), (0.7, "red")],
    ),
    stat("Trainers held back", "sum(runspine_worker_held_back)", steps=RED_FROM_ONE),
    stat("Malformed lines", "sum(runspine_worker_malformed_lines_total)", steps=[(1.0, "yellow")]),
    stat("Archiving processes", "sum(runspine_ingest_leading)"),
    Panel(
        "Steps read from trainers, per second",
        [("sum by (instance) (rate(runspine_worker_steps_total[1m]))", "{{instance}}")],
        "ops",
    ),
    Panel(
        "Batches spooled, per second",
        [("sum by (kind) (rate(runspine_worker_batches_total[1m]))", "{{kind}}")],
        "ops",
    ),
    Panel(
        "Batches archived, per second",
        [("sum by (kind) (rate(runspine_ingest_batches_total[1m]))", "{{kind}}")],
        "ops",
    ),
    Panel("Spool", [("runspine_worker_spool_bytes", "{{instance}}")], "bytes"),
    Panel("Messages without an acknowledgement", [("runspine_worker_publish_backlog", "{{instance}}")]),
    Panel(
        "JetStream acknowledges, 95 of 100 within",
        [("histogram_quantile(0.95, sum by (le) (rate(runspine_worker_publish_seconds_bucket[5m])))", "ack")],
        "s",
    ),
    Panel("Lag of the archive", [("runspine_ingest_lag_messages", "messages")]),
    Panel("Waiting for the next commit", [("runspine_ingest_buffered_bytes", "bytes")], "bytes"),
    Panel(
        "From the stream to a segment, 95 of 100 within",
        [
            (
                "histogram_quantile(0.95, sum by (le) (rate(runspine_ingest_batch_age_seconds_bucket[5m])))",
                "age",
            )
        ],
        "s",
    ),
    Panel(
        "Rows archived, per second",
        [("sum by (kind) (rate(runspine_ingest_rows_total[5m]))", "{{kind}}")],
        "ops",
    ),
    Panel(
        "Commits",
        [
            ("sum(increase(runspine_ingest_commits_total[5m]))", "written"),
            ("sum(increase(runspine_ingest_commits_lost_total[5m]))", "another was faster"),
        ],
    ),
    Panel(
        "What should not be",
        [
            ("sum(increase(runspine_ingest_malformed_total[5m]))", "malformed messages"),
            ("sum(increase(runspine_ingest_duplicates_total[5m]))", "batches twice"),
            ("sum(increase(runspine_telemetry_missed_batches_total[5m]))", "missed by slow readers"),
            ("sum(increase(runspine_worker_malformed_lines_total[5m]))", "malformed lines"),
        ],
    ),
]

RUNS = [
    stat("Completed", 'sum(runspine_runs{phase="completed"}) or vector(0)'),
    stat("Failed", 'sum(runspine_runs{phase="failed"}) or vector(0)', steps=RED_FROM_ONE),
    stat("Cancelled", 'sum(runspine_runs{phase="cancelled"}) or vector(0)'),
    stat("Open", 'sum(runspine_runs{phase!~"completed|failed|cancelled"}) or vector(0)'),
    stat("Envs", "count(count by (env) (runspine_runs))"),
    stat("Algorithms", "count(count by (algo) (runspine_runs))"),
    Panel("Runs by env", [("sum by (env) (runspine_runs)", "{{env}}")], stacked=True, width=12),
    Panel("Runs by algorithm", [("sum by (algo) (runspine_runs)", "{{algo}}")], stacked=True, width=12),
    Panel(
        "Open runs, by env and algorithm",
        [
            (
                'sum by (env, algo) (runspine_runs{phase!~"completed|failed|cancelled"}) or vector(0)',
                "{{env}} {{algo}}",
            )
        ],
        width=12,
    ),
    Panel(
        "Share that fails, by algorithm",
        [
            (
                '(sum by (algo) (runspine_runs{phase="failed"}) or sum by (algo) (runspine_runs) * 0)'
                " / sum by (algo) (runspine_runs)",
                "{{algo}}",
            )
        ],
        "percentunit",
        width=12,
    ),
    Panel(
        "Runs that ended, per hour",
        [('sum by (phase) (delta(runspine_runs{phase=~"completed|failed|cancelled"}[1h]))', "{{phase}}")],
        width=12,
    ),
    Panel("Steps, per second", [("sum(rate(runspine_worker_steps_total[5m]))", "all runs")], "ops", width=12),
]

ARTIFACTS = [
    stat("Artifacts", "sum(runspine_artifacts)"),
    stat("Corrupt", 'sum(runspine_artifacts{integrity="corrupt"}) or vector(0)', steps=RED_FROM_ONE),
    stat("Wait to be verified", "runspine_artifact_index_waiting"),
    stat("Oldest of them", "runspine_artifact_index_lag_seconds", "s", [(60, "yellow"), (600, "red")]),
    stat("In the bucket", "sum(runspine_bucket_bytes)", "bytes"),
    stat("Orphans", "sum(runspine_artifact_orphans) or vector(0)"),
    Panel(
        "Artifacts, by integrity",
        [("sum by (integrity) (runspine_artifacts)", "{{integrity}}")],
        stacked=True,
    ),
    Panel(
        "Artifacts, by what is kept", [("sum by (keeping) (runspine_artifacts)", "{{keeping}}")], stacked=True
    ),
    Panel(
        "Bucket, by prefix",
        [("sum by (prefix) (runspine_bucket_bytes)", "{{prefix}}")],
        "bytes",
        stacked=True,
    ),
    Panel(
        "Facts written, per minute",
        [("sum by (kind) (rate(runspine_artifact_facts_total[5m])) * 60", "{{kind}}")],
    ),
    Panel(
        "Read to be verified, per second",
        [("sum by (why) (rate(runspine_artifact_read_bytes_total[5m]))", "{{why}}")],
        "Bps",
    ),
    Panel(
        "Pruned and erased, per hour",
        [
            ("increase(runspine_artifact_pruned_bytes_total[1h])", "pruned"),
            ("increase(runspine_artifact_erased_bytes_total[1h])", "erased"),
        ],
        "bytes",
    ),
    Panel(
        "Files handled by workers, per minute",
        [("sum by (answer) (rate(runspine_worker_uploads_total[5m])) * 60", "{{answer}}")],
    ),
    Panel(
        "Files on their way to S3",
        [("sum by (instance) (runspine_worker_uploads_due)", "{{instance}}")],
    ),
    Panel(
        "Janitor",
        [
            ("sum(runspine_janitor_leading)", "processes that prune"),
            ("max(runspine_janitor_term)", "term"),
            ("sum by (outcome) (increase(runspine_janitor_rounds_total[5m]))", "rounds {{outcome}}"),
        ],
        note="One process prunes by the rules; a new term is a change of it.",
    ),
]

STORES = [
    stat("Log on disk", "runspine_jetstream_used_bytes", "bytes"),
    stat("NATS answers in", "runspine_nats_answer_seconds", "s", [(0.25, "yellow"), (1, "red")]),
    stat(
        "TELEMETRY full",
        'runspine_stream_bytes{stream="TELEMETRY"} / runspine_stream_limit_bytes{stream="TELEMETRY"}',
        "percentunit",
        [(0.5, "yellow"), (0.8, "red")],
    ),
    stat("S3 away", "runspine_artifact_s3_away", steps=RED_FROM_ONE),
    stat("Disk free, least", "min(runspine_disk_free_bytes / runspine_disk_total_bytes)", "percentunit"),
    stat("Broken chains", "sum(runspine_log_corrupt_total)", steps=RED_FROM_ONE),
    Panel("Streams", [("runspine_stream_bytes", "{{stream}}")], "bytes", stacked=True, width=12),
    Panel("Messages in streams", [("runspine_stream_messages", "{{stream}}")], width=12),
    Panel("NATS answers in", [("runspine_nats_answer_seconds", "a question")], "s"),
    Panel("Bucket", [("sum(runspine_bucket_bytes)", "all")], "bytes"),
    Panel("Disk free", [("min by (service) (runspine_disk_free_bytes)", "{{service}}")], "bytes"),
    Panel(
        "Growth of the log, per hour",
        [('sum(deriv(runspine_stream_bytes{stream=~"RUNS|ATTEMPTS|ARTIFACTS"}[15m])) * 3600', "facts")],
        "bytes",
        width=12,
    ),
    Panel(
        "Memory of the services",
        [("process_resident_memory_bytes", "{{service}} {{instance}}")],
        "bytes",
        width=12,
    ),
]

DASHBOARDS = {
    "fleet": dashboard("fleet", "Fleet and queue", FLEET),
    "pipeline": dashboard("pipeline", "Telemetry pipeline", PIPELINE),
    "runs": dashboard("runs", "Runs by env and algorithm", RUNS),
    "artifacts": dashboard("artifacts", "Artifacts and retention", ARTIFACTS),
    "stores": dashboard("stores", "NATS and S3", STORES),
}


def texts() -> dict[str, str]:
    """File names and what belongs in them."""
    return {f"{name}.json": json.dumps(board, indent=1) + "\n" for name, board in DASHBOARDS.items()}


if __name__ == "__main__":
    (HERE / "dashboards").mkdir(exist_ok=True)
    for name, text in texts().items():
        (HERE / "dashboards" / name).write_text(text)

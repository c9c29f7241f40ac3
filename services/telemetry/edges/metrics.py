"""Prometheus metrics of the telemetry service. No run id is a label."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

STREAMS = Gauge("runspine_telemetry_log_streams", "Callers that read logs now")
LINES = Counter("runspine_telemetry_log_lines", "Log lines sent to callers")
FOLLOWERS = Gauge("runspine_telemetry_followers", "Callers that follow steps, episodes or metrics now")
MISSED = Counter("runspine_telemetry_missed_batches", "Batches skipped for callers that were too slow")

BATCHES = Counter("runspine_ingest_batches", "Batches taken from the stream", ["kind"])
BYTES = Counter("runspine_ingest_bytes", "Bytes taken from the stream")
DUPLICATES = Counter("runspine_ingest_duplicates", "Batches that were on the stream twice")
MALFORMED = Counter("runspine_ingest_malformed", "Messages on the stream that are no batch")
ROWS = Counter("runspine_ingest_rows", "Rows committed to segments", ["kind"])
COMMITS = Counter("runspine_ingest_commits", "Manifests written")
LOST = Counter("runspine_ingest_commits_lost", "Commits that another process made first")
COMMIT_SECONDS = Histogram("runspine_ingest_commit_seconds", "From the first byte written to the manifest")
LAG = Gauge("runspine_ingest_lag_messages", "Messages on the stream that are not in segments yet")
BUFFERED = Gauge("runspine_ingest_buffered_bytes", "Bytes that wait for the next commit")
BATCH_AGE = Histogram(
    "runspine_ingest_batch_age_seconds",
    "From a batch's arrival on the stream to its manifest",
    buckets=(0.5, 1, 2.5, 5, 10, 20, 30, 45, 60, 120, 300),
)
LEADING = Gauge("runspine_ingest_leading", "1 while this process writes its partition")
TRIMMED = Gauge("runspine_ingest_trimmed_position", "Everything up to here was removed from the stream")
COMPACTED = Counter("runspine_ingest_segments_compacted", "Segments that were joined into larger ones")
SEGMENT_BYTES = Histogram(
    "runspine_segment_bytes",
    "Size of the segments written",
    ["kind"],
    buckets=tuple(float(1 << n) for n in range(10, 28, 2)),
)
CACHE_BYTES = Gauge("runspine_telemetry_cache_bytes", "Footers and levels held in memory")

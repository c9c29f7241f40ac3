"""Prometheus metrics of the worker. Run ids are never labels."""

from __future__ import annotations

from prometheus_client import Counter, Gauge, Histogram

SLOTS = Gauge("runspine_worker_slots", "Runs that this worker can hold at the same time")
BUSY = Gauge("runspine_worker_busy", "Runs that this worker holds")
ATTEMPTS = Counter("runspine_worker_attempts", "Attempts that ended here", ["outcome"])
PREFLIGHTS = Counter("runspine_worker_preflights", "Launch checks answered", ["answer"])
OFFERS = Counter("runspine_worker_offers", "Offers answered", ["answer"])
LINES = Counter("runspine_worker_lines", "Lines read from trainers")
LOG_LINES = Counter("runspine_worker_log_lines", "Log lines read from trainers")
MALFORMED = Counter("runspine_worker_malformed_lines", "Lines that look like the protocol and are not")
STEPS = Counter("runspine_worker_steps", "Environment steps read from trainers")
BATCHES = Counter("runspine_worker_batches", "Batches written to the spool", ["kind"])
SPOOL_BYTES = Gauge("runspine_worker_spool_bytes", "Bytes spooled and not yet acknowledged by JetStream")
SPOOL_LIMIT = Gauge("runspine_worker_spool_limit_bytes", "Bytes that may be spooled before trainers wait")
SPOOL_IS_FULL = Gauge("runspine_worker_spool_full", "1 while the spool or its disk is full")
HELD_BACK = Gauge("runspine_worker_held_back", "Trainers that wait because the spool is full")
SPOOL_FULL = Counter("runspine_worker_spool_full_seconds", "Time in which a full spool held up a trainer")
PUBLISH_SECONDS = Histogram(
    "runspine_worker_publish_seconds",
    "From sending a batch to its acknowledgement",
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30, 120, 600),
)
BACKLOG = Gauge("runspine_worker_publish_backlog", "Messages that JetStream has not acknowledged yet")
UPLOADS = Counter("runspine_worker_uploads", "Files of runs handled", ["answer"])
UPLOADS_DUE = Gauge("runspine_worker_uploads_due", "Files due for upload to S3")
FRAMES = Counter("runspine_worker_frames", "Live frames sent to viewers")
FRAMES_DROPPED = Counter("runspine_worker_frames_dropped", "Live frames replaced by newer ones")
VIEWED_RUNS = Gauge("runspine_worker_looked_at", "Runs that have viewers")

"""Prometheus metrics of the notices service."""

from prometheus_client import Counter, Gauge

DUE = Counter("runspine_notices_due_total", "Notices put on the log", ["event"])
SENT = Counter("runspine_notices_sent_total", "Notices that a receiver has accepted", ["kind"])
FAILED = Counter("runspine_notices_failed_total", "Tries that a receiver did not accept", ["kind"])
PENDING = Gauge("runspine_notices_pending_runs", "Runs with notices that wait to be sent")
DEAD = Gauge("runspine_notices_dead", "Notices on the dead-letter list")
READS = Counter("runspine_notices_metric_reads_total", "Reads of metrics for rules", ["outcome"])

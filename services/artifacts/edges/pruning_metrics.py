"""Prometheus metrics of facts, prunes and the janitor, inside the artifacts service or apart."""

from __future__ import annotations

from prometheus_client import Counter, Gauge

FACTS = Counter("runspine_artifact_facts_total", "Facts written to the ARTIFACTS stream", ["kind"])
PRUNED = Counter("runspine_artifact_pruned_bytes_total", "Bytes of artifacts that were pruned")
ERASED = Counter("runspine_artifact_erased_bytes_total", "Bytes that were removed from S3")
LEADING = Gauge("runspine_janitor_leading", "1 while this process holds the janitor's term")
TERM = Gauge("runspine_janitor_term", "Number of the janitor's term, as this process has read it")
ROUNDS = Counter("runspine_janitor_rounds_total", "Rounds of the janitor", ["outcome"])

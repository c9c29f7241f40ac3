"""Prometheus metrics of the artifacts service. No run id is ever a label."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import Counter, Gauge
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.spec.plain import enum_word
from runspine.wire.v1.artifacts_pb2 import Integrity, Keeping

READ = Counter("runspine_artifact_read_bytes_total", "Bytes read to be verified", ["why"])
SCRUBBED = Counter("runspine_artifact_scrubbed_total", "Objects that were scrubbed", ["outcome"])
LAG = Gauge("runspine_artifact_index_lag_seconds", "Age of the oldest artifact that waits to be verified")
WAITING = Gauge("runspine_artifact_index_waiting", "Artifacts that wait to be verified")
BUCKET = Gauge("runspine_bucket_bytes", "Bytes in the bucket, by first part of the name", ["prefix"])
ORPHANS = Gauge("runspine_artifact_orphans", "Objects without a fact, facts without an object", ["side"])
UPLOADS_SIGNED = Counter(
    "runspine_artifact_uploads_signed_total", "Requests of workers to sign an upload", ["outcome"]
)
TROUBLE = Gauge("runspine_artifact_s3_away", "1 while S3 cannot be read")


class CatalogCollector(Collector):
    """Counts artifacts of the catalog at each scrape."""

    def __init__(self, catalog: ArtifactCatalog) -> None:
        self._catalog = catalog

    def collect(self) -> Iterable[GaugeMetricFamily]:
        counts: dict[tuple[str, str], int] = {}
        for entry in list(self._catalog.run_artifacts.values()):
            for artifact in list(entry.artifacts.values()):
                key = (
                    enum_word(Integrity.DESCRIPTOR, artifact.integrity),
                    enum_word(Keeping.DESCRIPTOR, artifact.keeping),
                )
                counts[key] = counts.get(key, 0) + 1
        family = GaugeMetricFamily("runspine_artifacts", "Artifacts", labels=["integrity", "keeping"])
        for labels, count in sorted(counts.items()):
            family.add_metric(list(labels), count)
        return [family]

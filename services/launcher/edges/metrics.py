"""Prometheus metrics of the launcher."""

from prometheus_client import Counter, Gauge

PLACEMENTS = Gauge("runspine_launcher_seats", "Placements on the engine, by state", ["pool", "state"])
LAUNCHED = Counter("runspine_launcher_launched_total", "Workers launched", ["pool"])
CANCELLED = Counter("runspine_launcher_cancelled_total", "Placements cancelled", ["pool"])
FAILED = Counter("runspine_launcher_refused_total", "Launches that the engine refused", ["pool"])
AWAY = Gauge("runspine_launcher_engine_away", "1 while the engine does not answer", ["pool"])

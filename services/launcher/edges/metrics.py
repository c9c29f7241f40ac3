"""What the launcher counts."""

from prometheus_client import Counter, Gauge

SEATS = Gauge("runspine_launcher_seats", "Processes on the engine, by what they do", ["pool", "state"])
LAUNCHED = Counter("runspine_launcher_launched_total", "Workers asked for", ["pool"])
CANCELLED = Counter("runspine_launcher_cancelled_total", "Workers taken away", ["pool"])
FAILED = Counter("runspine_launcher_refused_total", "Runs that the engine does not take", ["pool"])
AWAY = Gauge("runspine_launcher_engine_away", "1 while the engine does not answer", ["pool"])

"""Commands on the telemetry of runs: metrics, episodes, replay, comparison, export."""

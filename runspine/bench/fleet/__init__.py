"""Benchmarks of the orchestrator's work per event, by the number of workers, runs and watchers."""

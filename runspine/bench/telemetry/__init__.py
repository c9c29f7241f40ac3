"""Benchmarks of telemetry: durability, latency, queries, storage."""

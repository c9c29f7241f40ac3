"""Streams, objects and queries of the telemetry service."""

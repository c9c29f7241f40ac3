"""Telemetry of an attempt, from lines to the stream through a spool on disk."""

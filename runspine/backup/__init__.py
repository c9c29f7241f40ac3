"""Backup of the whole system to a folder or file, and restore: facts, telemetry and objects, verified by
digest."""

"""The append-only log: its port, its adapters and what proves it whole."""

from runspine.log.port import Conflict, Corrupt, EventLog, Extent, Recorded, Unknown, Version

__all__ = ["Conflict", "Corrupt", "EventLog", "Extent", "Recorded", "Unknown", "Version"]

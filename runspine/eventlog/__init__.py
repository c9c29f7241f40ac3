"""The append-only log: its port, its adapters, and the verification of its hash chain."""

from runspine.eventlog.port import (
    ConflictError,
    CorruptError,
    EventLog,
    Extent,
    Recorded,
    UnknownOutcomeError,
    Version,
)

__all__ = [
    "ConflictError",
    "CorruptError",
    "EventLog",
    "Extent",
    "Recorded",
    "UnknownOutcomeError",
    "Version",
]

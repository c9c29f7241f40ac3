"""Sinks: telemetry of a run in the format of another tool, attached before, during or after the run.

A sink is a late subscriber: it receives everything from the first batch on, whenever it is attached. After
a kill it continues, or starts again, without duplicate or missing points.
"""

from runspine.sinks.port import KINDS, ExportedRun, Mark, Sink

__all__ = ["KINDS", "ExportedRun", "Mark", "Sink"]

"""Sinks: a run's telemetry in the format of another tool, attached before, during or after the run.

A sink is a late reader of the log: it is filled from the first batch on whenever it is attached,
and one that was killed goes on, or begins anew, without a doubled or a missing point.
"""

from runspine.sinks.port import KINDS, Mark, Sink, Subject

__all__ = ["KINDS", "Mark", "Sink", "Subject"]

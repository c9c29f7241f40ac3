"""The run: its commands, its rules, and the fold of its facts. Pure."""

from runspine.domain.run.decide import RunRefusedError, decide
from runspine.domain.run.evolve import ACTIVE, ENDED, UNDERWAY, evolve, fold

__all__ = ["ACTIVE", "ENDED", "UNDERWAY", "RunRefusedError", "decide", "evolve", "fold"]

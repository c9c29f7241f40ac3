"""The run: its commands, its rules, and the fold of its facts. Pure."""

from runspine.run.decide import Refused, decide
from runspine.run.evolve import ENDED, UNDERWAY, evolve, fold

__all__ = ["ENDED", "UNDERWAY", "Refused", "decide", "evolve", "fold"]

"""Artifacts of a run: commands, rules, and the fold of artifacts.<run_id>. Pure."""

from runspine.domain.artifact.decide import decide
from runspine.domain.artifact.evolve import IMPORTS, fold
from runspine.domain.run import RunRefusedError

__all__ = ["IMPORTS", "RunRefusedError", "decide", "fold"]

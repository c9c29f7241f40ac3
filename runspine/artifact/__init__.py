"""What is kept of a run: commands, rules, and the fold of artifacts.<run_id>. Pure."""

from runspine.artifact.decide import decide
from runspine.artifact.evolve import CHECKPOINT, IMPORTS, LOADABLE, VIDEO, fold
from runspine.run import Refused

__all__ = ["CHECKPOINT", "IMPORTS", "LOADABLE", "VIDEO", "Refused", "decide", "fold"]

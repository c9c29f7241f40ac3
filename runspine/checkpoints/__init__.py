"""Checkpoints of any origin: what a file is and says, read without running a byte of it.

Importing this pulls in neither torch nor numpy; `runspine.checkpoints.weights` needs torch.
"""

from runspine.checkpoints.about import About
from runspine.checkpoints.bad import BadCheckpoint
from runspine.checkpoints.look import look

__all__ = ["About", "BadCheckpoint", "look"]

"""Checkpoints of any origin: their format and metadata, read without running code from the file.

Importing this pulls in neither torch nor numpy; `runspine.checkpoints.weights` needs torch.
"""

from runspine.checkpoints.about import CheckpointAbout
from runspine.checkpoints.errors import CheckpointError
from runspine.checkpoints.inspection import inspect_checkpoint

__all__ = ["CheckpointAbout", "CheckpointError", "inspect_checkpoint"]

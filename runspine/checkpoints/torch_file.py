"""Files of torch.save: a zip with a pickle that describes the tensors and entries with their numbers."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

from runspine.checkpoints.archive import entries_of, read_entry
from runspine.checkpoints.errors import CheckpointError
from runspine.checkpoints.plain_pickle import MAX_PICKLE_BYTES, read_plain

_PICKLE = "/data.pkl"


def is_torch(names: Collection[str]) -> bool:
    return any(name.endswith(_PICKLE) for name in names)


def read_shapes(source: Path | IO[bytes], name: str) -> Any:
    """The saved object, with tensors as their shapes. Raises CheckpointError."""
    names = [entry.filename for entry in entries_of(source, name)]
    pickles = [each for each in names if each.endswith(".pkl")]
    if any(each.endswith("/constants.pkl") for each in pickles) or any("/code/" in each for each in names):
        raise CheckpointError(
            f"{name} is a TorchScript program, which holds code: save the state_dict instead"
        )
    if len(pickles) != 1:
        raise CheckpointError(f"{name} holds {len(pickles)} pickles instead of one")
    try:
        return read_plain(read_entry(source, pickles[0], MAX_PICKLE_BYTES, name))
    except CheckpointError as error:
        raise CheckpointError(f"{name}: {error}") from error

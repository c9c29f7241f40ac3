"""Files of torch.save: a zip with a pickle that describes tensors, and their numbers beside it."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import IO, Any

from runspine.checkpoints.archive import entries_of, read_entry
from runspine.checkpoints.bad import BadCheckpoint
from runspine.checkpoints.plain_pickle import LARGEST, read_plain

_PICKLE = "/data.pkl"


def is_torch(names: Collection[str]) -> bool:
    return any(name.endswith(_PICKLE) for name in names)


def read_shapes(source: Path | IO[bytes], name: str) -> Any:
    """What was saved, with tensors as their shapes. Raises BadCheckpoint."""
    names = [entry.filename for entry in entries_of(source, name)]
    pickles = [each for each in names if each.endswith(".pkl")]
    if any(each.endswith("/constants.pkl") for each in pickles) or any("/code/" in each for each in names):
        raise BadCheckpoint(f"{name} is a TorchScript program, which holds code: save the state_dict instead")
    if len(pickles) != 1:
        raise BadCheckpoint(f"{name} holds {len(pickles)} pickles instead of one")
    try:
        return read_plain(read_entry(source, pickles[0], LARGEST, name))
    except BadCheckpoint as error:
        raise BadCheckpoint(f"{name}: {error}") from error

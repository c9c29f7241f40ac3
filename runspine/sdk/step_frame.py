"""Steps of one env as a binary frame (docs/protocol.md). Pure."""

from __future__ import annotations

from runspine.frames import MAX_PAYLOAD_BYTES, framed
from runspine.sdk.columns import Taken
from runspine.sdk.encoding import HASH_BYTES, Packed

# What a header takes at most, besides its columns: ids of episodes are short.
HEADER_BYTES = 64 << 10


def step_frame(fields: str, reward: bytes, actions: Taken, observations: Taken) -> bytes | None:
    """The frame; None when a column is not binary, or all are too long: they are written as a line."""
    if not isinstance(actions, Packed) or isinstance(observations, list):
        return None
    described = f'["reward","<f8",[]],["action","{actions.dtype}",{list(actions.shape)}]'
    columns = [reward, actions.data]
    if isinstance(observations, Packed):
        described += f',["obs","{observations.dtype}",{list(observations.shape)}]'
        columns.append(observations.data)
    elif observations is not None:
        described += f',["obs_hash","|u1",[{HASH_BYTES}]]'
        columns.append(observations)
    if sum(map(len, columns)) > MAX_PAYLOAD_BYTES - HEADER_BYTES:
        return None
    return framed(f'{{"type":"steps",{fields},"columns":[{described}]}}'.encode("ascii"), columns)

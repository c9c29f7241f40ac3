"""Applies the capture policy to observations: keep all, a hash of each, or nothing. Pure."""

from __future__ import annotations

from hashlib import blake2b

from runspine.wire.v1.spec_pb2 import FULL, HASH, NONE, ObservationPolicy
from runspine.wire.v1.telemetry_pb2 import Reset, StepBlock

# Rows up to this size are kept in full when the spec has no policy.
MAX_DEFAULT_ROW_BYTES = 256
# A larger row does not fit into a batch, whatever the policy.
MAX_ROW_BYTES = 200 << 10
HASH_BYTES = 8


def row_hash(row: bytes) -> bytes:
    """Hash of one observation."""
    return blake2b(row).digest()[:HASH_BYTES]


class Observations:
    """Applies a spec's policy. `cut` is True once a row was too large to be kept in full."""

    def __init__(self, policy: ObservationPolicy) -> None:
        self._policy = policy
        self._max_row_bytes = {FULL: MAX_ROW_BYTES, HASH: -1, NONE: -1}.get(policy, MAX_DEFAULT_ROW_BYTES)
        self.cut = False

    def apply(self, block: StepBlock | Reset) -> None:
        """Leave in the block what the policy keeps."""
        if self._policy != NONE and block.HasField("observation"):
            count = block.count if isinstance(block, StepBlock) else 1
            if len(block.observation.data) <= self._max_row_bytes * count:
                return
        rows = _rows(block)
        if self._policy == NONE:
            block.ClearField("observation_hash")
        elif not rows or max(map(len, rows)) <= self._max_row_bytes:
            return
        else:
            self.cut = self.cut or self._policy == FULL
            block.observation_hash = b"".join(map(row_hash, rows))
        block.ClearField("observation")
        block.ClearField("observation_json")


def _rows(block: StepBlock | Reset) -> list[bytes]:
    """Raw bytes of each observation in the block: those of its column, or its JSON."""
    if block.HasField("observation"):
        data = block.observation.data
        size = len(data) // (block.count if isinstance(block, StepBlock) else 1)
        return [data[start : start + size] for start in range(0, len(data), size)] if size else [b""]
    if isinstance(block, StepBlock):
        return [text.encode() for text in block.observation_json]
    return [block.observation_json.encode()] if block.observation_json else []

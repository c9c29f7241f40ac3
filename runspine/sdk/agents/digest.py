"""Hash of the first observations of several agents. Pure."""

from __future__ import annotations

import hashlib
from typing import Any

from runspine.sdk.encoding import HASH_BYTES, digest


def first_digest(observations: Any) -> bytes:
    """Hash of the observations by agent, in their order."""
    parts = [str(agent).encode() + b"\0" + digest(seen) for agent, seen in observations.items()]
    return hashlib.blake2b(b"".join(parts)).digest()[:HASH_BYTES]

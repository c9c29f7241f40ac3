"""Suggestions for values that are not accepted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def not_accepted(given: str, accepted: Iterable[str], *, limit: int = 12) -> str:
    """Message that a value is not accepted, with the accepted values and the nearest match."""
    known = sorted(accepted)
    shown = ", ".join(known[:limit]) + (", …" if len(known) > limit else "")
    text = f"{given!r} is not one of: {shown}" if known else f"{given!r} is not accepted"
    near = difflib.get_close_matches(given.lower(), {word.lower(): word for word in known}, n=1, cutoff=0.6)
    original = {word.lower(): word for word in known}
    return f"{text}. Did you mean {original[near[0]]!r}?" if near else text

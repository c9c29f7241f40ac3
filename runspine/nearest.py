"""The nearest match for a word that is not accepted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def not_accepted(given: str, accepted: Iterable[str], *, limit: int = 12) -> str:
    """'x' is not accepted: what is, and the nearest of it."""
    known = sorted(accepted)
    shown = ", ".join(known[:limit]) + (", …" if len(known) > limit else "")
    text = f"{given!r} is not one of: {shown}" if known else f"{given!r} is not accepted"
    near = difflib.get_close_matches(given.lower(), {word.lower(): word for word in known}, n=1, cutoff=0.6)
    original = {word.lower(): word for word in known}
    return f"{text}. Did you mean {original[near[0]]!r}?" if near else text

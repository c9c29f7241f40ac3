"""Help on an algorithm as Markdown that a page can show. Pure."""

from __future__ import annotations

import re

# Longer texts are cut; those of this release have a few kilobytes.
MAX_CHARACTERS = 20_000
# Pictures would be fetched, links could lead anywhere: their words remain.
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")


def without_markup(text: str) -> str:
    """The text without HTML, pictures and links."""
    return _LINK.sub(r"\1", text[:MAX_CHARACTERS]).replace("<", "&lt;")

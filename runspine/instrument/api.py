"""Detects the version of Gymnasium that a script was written for. Pure."""

from __future__ import annotations

import re

OLD, NATIVE = "0.29", "native"
# Names in vector envs of 0.29 that changed in 1.0.
_OLD_NAMES = re.compile(r"\bfinal_(info|observation)\b")
_NEW_NAMES = re.compile(r"\b(final_obs|autoreset_mode|AutoresetMode)\b")


def api_of(source: str) -> str:
    """Version by the names that the script uses at the end of an episode; native without any."""
    return OLD if _OLD_NAMES.search(source) and not _NEW_NAMES.search(source) else NATIVE

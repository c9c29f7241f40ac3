"""Which Gymnasium a script was written for. Pure."""

from __future__ import annotations

import re

OLD, NATIVE = "0.29", "native"
# Names of 0.29's vector envs that have others since 1.0.
_OLD_NAMES = re.compile(r"\bfinal_(info|observation)\b")
_NEW_NAMES = re.compile(r"\b(final_obs|autoreset_mode|AutoresetMode)\b")


def api_of(source: str) -> str:
    """By what the script calls the end of an episode; as it is installed when it says nothing of it."""
    return OLD if _OLD_NAMES.search(source) and not _NEW_NAMES.search(source) else NATIVE

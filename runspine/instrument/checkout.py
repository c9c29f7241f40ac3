"""A checkout of CleanRL: its folder and its scripts. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from runspine.instrument.git_checkout import commit_of

VARIABLE = "RUNSPINE_CLEANRL_DIR"
SOURCE = "https://github.com/vwxyzjn/cleanrl"
# The package of that name on PyPI is something else.
HOW_TO_GET = f"git clone {SOURCE} and set {VARIABLE} to that folder where the worker starts"
SCRIPTS, SHARED = "cleanrl", "cleanrl_utils"


class CleanrlCheckoutError(Exception):
    """There is no CleanRL checkout to run; the message gives the remedy."""


@dataclass(frozen=True, slots=True)
class CleanrlCheckout:
    """A folder with CleanRL's scripts."""

    folder: Path

    @classmethod
    def find(cls, environment: Mapping[str, str]) -> CleanrlCheckout:
        """Find the checkout that the worker's setting names. Raises CleanrlCheckoutError."""
        given = environment.get(VARIABLE, "").strip()
        if not given:
            raise CleanrlCheckoutError(f"{VARIABLE} is not set: {HOW_TO_GET}")
        folder = Path(given).expanduser()
        if not folder.is_dir():
            raise CleanrlCheckoutError(f"{VARIABLE} names {folder}, which is no folder: {HOW_TO_GET}")
        missing = [name for name in (SCRIPTS, SHARED) if not (folder / name).is_dir()]
        if missing:
            raise CleanrlCheckoutError(
                f"{VARIABLE} names {folder}, which has no folder {missing[0]}: "
                f"name the top folder of the checkout ({HOW_TO_GET})"
            )
        return cls(folder.resolve())

    def scripts(self) -> dict[str, Path]:
        """Scripts by the name of their algorithm: `ppo`, `ppo_trxl`, …"""
        found = {path.stem: path for path in (self.folder / SCRIPTS).glob("*.py")}
        # Some have their own folder of the same name.
        for path in (self.folder / SCRIPTS).glob("*/*.py"):
            if path.stem == path.parent.name:
                found.setdefault(path.stem, path)
        return {name: found[name] for name in sorted(found) if not name.startswith("_")}

    @property
    def commit(self) -> str:
        """The checked out commit, read from git's files; empty when it is not a git checkout."""
        return commit_of(self.folder)

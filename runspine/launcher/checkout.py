"""A checkout of CleanRL: where it is, whether it is one, which scripts it has. Standard library alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "RUNSPINE_CLEANRL_DIR"
SOURCE = "https://github.com/vwxyzjn/cleanrl"
# PyPI has a package of that name, years old and something else.
HOW_TO_GET = f"git clone {SOURCE} and set {VARIABLE} to that folder where the worker starts"
SCRIPTS, SHARED = "cleanrl", "cleanrl_utils"


class NoCheckout(Exception):
    """There is no CleanRL to run; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Checkout:
    folder: Path

    @classmethod
    def find(cls, environment: Mapping[str, str]) -> Checkout:
        """The one that the worker's setting names. Raises NoCheckout."""
        given = environment.get(VARIABLE, "").strip()
        if not given:
            raise NoCheckout(f"{VARIABLE} is not set: {HOW_TO_GET}")
        folder = Path(given).expanduser()
        if not folder.is_dir():
            raise NoCheckout(f"{VARIABLE} names {folder}, which is no folder: {HOW_TO_GET}")
        missing = [name for name in (SCRIPTS, SHARED) if not (folder / name).is_dir()]
        if missing:
            raise NoCheckout(
                f"{VARIABLE} names {folder}, which has no folder {missing[0]}: "
                f"name the top folder of the checkout ({HOW_TO_GET})"
            )
        return cls(folder.resolve())

    def scripts(self) -> dict[str, Path]:
        """Each algorithm's file, by its name: `ppo`, `ppo_trxl`, …"""
        found = {path.stem: path for path in (self.folder / SCRIPTS).glob("*.py")}
        # A few have a folder of their own, of the same name.
        for path in (self.folder / SCRIPTS).glob("*/*.py"):
            if path.stem == path.parent.name:
                found.setdefault(path.stem, path)
        return {name: found[name] for name in sorted(found) if not name.startswith("_")}

    @property
    def commit(self) -> str:
        """The commit that is checked out, as far as plain files tell; empty when it is no git checkout."""
        git = self.folder / ".git"
        try:
            if git.is_file():
                git = self.folder / git.read_text().partition("gitdir:")[2].strip()
            head = (git / "HEAD").read_text().strip()
            reference = head.partition("ref: ")[2]
            return (git / reference).read_text().strip() if reference else head
        except OSError:
            return ""

"""A checkout of CORL: where it is, whether it is one, which scripts it has. Standard library alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "RUNSPINE_CORL_DIR"
SOURCE = "https://github.com/tinkoff-ai/CORL"
HOW_TO_GET = f"git clone {SOURCE} and set {VARIABLE} to that folder where the worker starts"
SCRIPTS = "algorithms"
# Folders of scripts, and what the names of their algorithms begin with.
PREFIXES = {"offline": "corl-", "finetune": "corl-finetune-"}
# d4rl, gym and wandb are stood in for.
PACKAGES = ("torch", "numpy", "gymnasium", "h5py", "pyrallis", "tqdm")


class NoCheckout(Exception):
    """There is no CORL to run; the message says what to do."""


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
        if not (folder / SCRIPTS).is_dir():
            raise NoCheckout(f"{VARIABLE} names {folder}, which has no folder {SCRIPTS}: {HOW_TO_GET}")
        return cls(folder.resolve())

    def scripts(self) -> dict[str, Path]:
        """Each script by its algorithm's name: corl-td3_bc, corl-finetune-iql, …"""
        return {
            f"{prefix}{path.stem}": path
            for folder, prefix in PREFIXES.items()
            for path in sorted((self.folder / SCRIPTS / folder).glob("*.py"))
            if not path.name.startswith("_")
        }


def wanted(environment: Mapping[str, str]) -> bool:
    return bool(environment.get(VARIABLE, "").strip())

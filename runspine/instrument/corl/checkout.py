"""A checkout of CORL: its folder and its scripts. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "RUNSPINE_CORL_DIR"
SOURCE = "https://github.com/tinkoff-ai/CORL"
HOW_TO_GET = f"git clone {SOURCE} and set {VARIABLE} to that folder where the worker starts"
SCRIPTS = "algorithms"
# Folders of scripts, and the prefixes of their algorithms' names.
PREFIXES = {"offline": "corl-", "finetune": "corl-finetune-"}
# There are stand-ins for d4rl, gym and wandb.
PACKAGES = ("torch", "numpy", "gymnasium", "h5py", "pyrallis", "tqdm")


class CorlCheckoutError(Exception):
    """There is no CORL checkout to run; the message gives the remedy."""


@dataclass(frozen=True, slots=True)
class CorlCheckout:
    """A folder with CORL's scripts."""

    folder: Path

    @classmethod
    def find(cls, environment: Mapping[str, str]) -> CorlCheckout:
        """Find the checkout that the worker's setting names. Raises CorlCheckoutError."""
        given = environment.get(VARIABLE, "").strip()
        if not given:
            raise CorlCheckoutError(f"{VARIABLE} is not set: {HOW_TO_GET}")
        folder = Path(given).expanduser()
        if not (folder / SCRIPTS).is_dir():
            raise CorlCheckoutError(f"{VARIABLE} names {folder}, which has no folder {SCRIPTS}: {HOW_TO_GET}")
        return cls(folder.resolve())

    def scripts(self) -> dict[str, Path]:
        """Scripts by the name of their algorithm: corl-td3_bc, corl-finetune-iql, …"""
        return {
            f"{prefix}{path.stem}": path
            for folder, prefix in PREFIXES.items()
            for path in sorted((self.folder / SCRIPTS / folder).glob("*.py"))
            if not path.name.startswith("_")
        }


def wanted(environment: Mapping[str, str]) -> bool:
    return bool(environment.get(VARIABLE, "").strip())

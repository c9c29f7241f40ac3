"""Which modules of trackers are patched or replaced as a program imports them."""

from __future__ import annotations

import importlib.machinery
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from runspine.instrument.standins import StandInLoader
from runspine.instrument.trackers import aim, mlflow, swanlab, trackio, wandb_library, wandb_stand_in
from runspine.instrument.trackers.choice import TRACKERS, is_real
from runspine.instrument.trackers.null import NullModule

Patch = Callable[[Any], None]
MODULES = TRACKERS
_PATCHES: dict[str, dict[str, Patch]] = {
    "wandb": {"wandb": wandb_library.patch},
    "trackio": {"trackio.run": trackio.patch, "trackio": trackio.patch_media},
    "mlflow": {"mlflow.tracking._tracking_service.client": mlflow.patch},
    "swanlab": {"swanlab": swanlab.patch},
    "aim": {"aim.sdk.run": aim.patch, "aim": aim.patch_media},
}
_STAND_INS: dict[str, Callable[[str], ModuleType]] = {
    "wandb": wandb_stand_in.WandbStandIn,
    "wandb.integration.sb3": wandb_stand_in.sb3_module,
    "trackio": trackio.TrackioStandIn,
    "mlflow": mlflow.MlflowStandIn,
    "swanlab": swanlab.SwanlabStandIn,
    "aim": aim.AimStandIn,
}
# Asked for by frameworks that then log to all that are there; a program names the others itself.
PROBED = ("wandb",)


def patches(environment: Mapping[str, str]) -> dict[str, Patch]:
    """Patches of the libraries that are used themselves."""
    found: dict[str, Patch] = {}
    for tracker in TRACKERS:
        if is_real(tracker, environment):
            found |= _PATCHES[tracker]
    return found


def install() -> None:
    """Serve stand-ins: first for libraries that are not wanted, last for those that are not installed."""
    real = [tracker for tracker in TRACKERS if is_real(tracker, os.environ)]
    sys.meta_path.insert(0, TrackerFinder([tracker for tracker in TRACKERS if tracker not in real]))
    sys.meta_path.append(TrackerFinder(real))


class TrackerFinder:
    """Finds stand-ins of some trackers, and of every module below them."""

    def __init__(self, trackers: Sequence[str]) -> None:
        self._trackers = trackers

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        tracker, _, inner = fullname.partition(".")
        if tracker not in self._trackers or (not inner and tracker not in PROBED and _is_probe()):
            return None
        if inner and not isinstance(sys.modules.get(tracker), NullModule):
            # A module that the installed library does not have.
            return None
        make = _STAND_INS.get(fullname, NullModule)
        return importlib.machinery.ModuleSpec(fullname, StandInLoader(make), is_package=True)


def _is_probe() -> bool:
    """Whether a library asks if it is installed, rather than imports it."""
    frame = sys._getframe(2)
    for _ in range(8):
        if frame is None:
            return False
        if frame.f_globals.get("__name__") == "importlib.util":
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False

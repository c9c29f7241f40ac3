"""Whether a tracker's own library works in a run, or a stand-in. Pure."""

from __future__ import annotations

from collections.abc import Mapping

TRACKERS = ("wandb", "trackio", "mlflow", "swanlab", "aim")
# Of the run's spec (`capture.mirror`): trackers whose library works as well, separated by commas; `none`.
MIRROR, NOTHING = "RUNSPINE_MIRROR", "none"
# These contact a server unless set otherwise, and end the program without an account.
_KEYS = {"wandb": "WANDB_API_KEY", "swanlab": "SWANLAB_API_KEY"}
_MODES = {"wandb": "WANDB_MODE", "swanlab": "SWANLAB_MODE"}
LOCAL_MODES = ("offline", "disabled", "dryrun", "local")


def is_real(tracker: str, environment: Mapping[str, str]) -> bool:
    """Whether the library itself is used where it is installed."""
    if asked := environment.get(MIRROR, ""):
        return tracker in asked.split(",")
    if tracker not in _KEYS:
        return True
    return bool(environment.get(_KEYS[tracker])) or environment.get(_MODES[tracker]) in LOCAL_MODES

"""The script's own evaluation, said as a batch of returns when its last env is gone."""

from __future__ import annotations

import hashlib
import time

from runspine.launcher.models import about
from runspine.launcher.record import record


def begun() -> None:
    if not record.evaluating:
        record.evaluating_since = time.monotonic()
    record.evaluating += 1


def ended() -> None:
    record.evaluating -= 1
    episodes, record.evaluated = record.evaluated, [] if not record.evaluating else record.evaluated
    if record.evaluating or not episodes or record.child:
        return
    # Returns are added up as the lines are made.
    record.run.flush()
    told = about()
    record.run.log_evaluation(
        [episode.value for episode in episodes],
        [episode.steps for episode in episodes],
        time.monotonic() - record.evaluating_since,
        env_id=told["env"],
        algo=told["algo"],
        seed=told["seed"],
        step=record.step,
        digest=_digest(record.model),
    )


def _digest(path: str) -> str:
    """Of the model that was evaluated: the one that was saved last."""
    if not path:
        return ""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()

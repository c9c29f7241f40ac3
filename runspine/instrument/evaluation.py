"""Records the script's own evaluation as a batch of returns when its last env is gone."""

from __future__ import annotations

import hashlib
import time

from runspine.instrument.models import about, files
from runspine.instrument.record import record


def begun() -> None:
    if not record.evaluating:
        record.evaluating_since = time.monotonic()
    record.evaluating += 1


def ended() -> None:
    record.evaluating -= 1
    episodes, record.evaluated = record.evaluated, [] if not record.evaluating else record.evaluated
    if record.evaluating or not episodes or record.child:
        return
    # The model that was evaluated is announced before its score. Returns are summed when lines are formatted.
    files.release(final=True)
    record.run.flush()
    meta = about()
    record.run.log_evaluation(
        [episode.value for episode in episodes],
        [episode.steps for episode in episodes],
        time.monotonic() - record.evaluating_since,
        env_id=meta["env"],
        algo=meta["algo"],
        seed=meta["seed"],
        step=record.step,
        digest=_digest(record.model),
    )


def _digest(path: str) -> str:
    """Digest of the evaluated model: the one that was saved last."""
    if not path:
        return ""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()

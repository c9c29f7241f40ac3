"""A minimal trainer: plain protocol lines, checkpoints, and a stop on SIGTERM.

`runspine runners check script` runs it. It uses only the standard library and shows what a trainer in
any language has to do.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

EPISODE_STEPS = 10
# About a thousand steps a second, so that a long run uses little CPU.
PACE_SECONDS = 0.001


def emit(**line: object) -> None:
    print(json.dumps(line), flush=True)  # noqa: T201 - the protocol is lines on stdout


def save(folder: Path, step: int) -> None:
    path = folder / f"counter-{step}.json"
    path.write_text(json.dumps({"step": step}))
    emit(type="artifact", kind="checkpoint", path=path.name, step=step)


def begin_at(source: str, kind: str) -> int:
    """First step: that of the checkpoint when resuming, 0 for a warm start."""
    if not source:
        return 0
    step = int(json.loads(Path(source).read_text())["step"])
    return step if kind == "resume" else 0


def main() -> int:
    total = int(os.environ.get("RUNSPINE_TOTAL_STEPS") or 1000)
    folder = Path(os.environ.get("RUNSPINE_RUN_DIR") or ".")
    step = begin_at(os.environ.get("RUNSPINE_RESUME", ""), os.environ.get("RUNSPINE_RESUME_KIND", ""))
    dice = random.Random(int(os.environ.get("RUNSPINE_SEED") or 1))
    stopping: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: stopping.append(number))
    emit(type="config", args={"total": total})
    gained = 0.0
    while step < total and not stopping:
        within, reward = step % EPISODE_STEPS, dice.random()
        last = within == EPISODE_STEPS - 1
        episode = str(step // EPISODE_STEPS)
        where = {"episode_id": episode, "step": within, "global_step": step}
        emit(type="step", **where, action=0, reward=reward, terminated=last, truncated=False)
        gained += reward
        step += 1
        if last:
            emit(type="episode", episode_id=episode, steps=EPISODE_STEPS, **{"return": gained})
            emit(type="metric", name="charts/episodic_return", value=gained, step=step)
            gained = 0.0
        if step % max(total // 10, 1) == 0:
            save(folder, step)
        time.sleep(PACE_SECONDS)
    save(folder, step)
    return 128 + stopping[0] if stopping else 0


if __name__ == "__main__":
    sys.exit(main())

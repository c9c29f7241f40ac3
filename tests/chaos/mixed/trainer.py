"""A trainer whose every step is known beforehand: `trainer.py LEDGER EPISODES LENGTH PAUSE EXIT_CODE`.

It prints its steps in the plain protocol, keeps checkpoints, resumes from the one it is given, and writes
into a ledger, outside everything that is under test, when each process of it began, lived and ended.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from pathlib import Path

CHECKPOINT_EVERY = 5


def emit(**words: object) -> None:
    print(json.dumps(words), flush=True)


def note(ledger: Path, what: str) -> None:
    line = f"{os.environ['RUNSPINE_RUN_ID']} {os.environ['RUNSPINE_ATTEMPT']} {time.monotonic():.4f} {what}\n"
    with ledger.open("a") as file:
        file.write(line)


def noise(run_id: str, step: int) -> bytes:
    """A kilobyte that no other checkpoint has, and that does not compress: it can be found on a disk."""
    return b"".join(hashlib.sha256(f"{run_id} {step} {n}".encode()).digest() for n in range(32))


def episode(number: int, length: int, pause: float) -> None:
    for step in range(length):
        at = number * length + step
        ended = step == length - 1
        emit(type="step", episode_id=f"e{number}", step=step, action=at, reward=float(at), terminated=ended,
            truncated=False, global_step=at)  # fmt: skip
        time.sleep(pause)
    total = float(sum(range(number * length, (number + 1) * length)))
    emit(**{"type": "episode", "episode_id": f"e{number}", "steps": length, "return": total,
           "global_step": (number + 1) * length - 1})  # fmt: skip


def save(done: int, length: int) -> None:
    name, step = f"checkpoint-{done}.bin", done * length
    path = Path(os.environ["RUNSPINE_RUN_DIR"]) / name
    while not wrote(path, done.to_bytes(8, "little") + noise(os.environ["RUNSPINE_RUN_ID"], step)):
        time.sleep(0.2)
    # A checkpoint's step is how many steps were done, not the number of the last one.
    emit(type="artifact", kind="checkpoint", path=name, step=step)


def wrote(path: Path, data: bytes) -> bool:
    """A disk that is full will not always be: a trainer that gave up would end as failed, truly."""
    try:
        path.write_bytes(data)
    except OSError:
        return False
    return True


def load(given: str) -> int:
    return int.from_bytes(Path(given).read_bytes()[:8], "little") if given else 0


def main(ledger: Path, episodes: int, length: int, pause: float, code: int) -> None:
    note(ledger, "begin")
    for number in range(load(os.environ.get("RUNSPINE_RESUME", "")), episodes):
        episode(number, length, pause)
        note(ledger, "lives")
        if (number + 1) % CHECKPOINT_EVERY == 0:
            save(number + 1, length)
    note(ledger, "end")
    sys.exit(code)


if __name__ == "__main__":
    where, *numbers = sys.argv[1:]
    main(Path(where), int(numbers[0]), int(numbers[1]), float(numbers[2]), int(numbers[3]))

"""A trainer whose every step is known beforehand: `trainer.py LEDGER EPISODES LENGTH PAUSE EXIT_CODE`.

It says its steps in the plain protocol, keeps checkpoints, goes on from the one it is given, and writes
into a ledger, outside everything that is under test, when each process of it began and ended.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

CHECKPOINT_EVERY = 5


def say(**words: object) -> None:
    print(json.dumps(words), flush=True)


def note(ledger: Path, what: str) -> None:
    line = f"{os.environ['RUNSPINE_RUN_ID']} {os.environ['RUNSPINE_ATTEMPT']} {time.monotonic():.4f} {what}\n"
    with ledger.open("a") as file:
        file.write(line)


def episode(number: int, length: int, pause: float) -> None:
    for step in range(length):
        at = number * length + step
        ended = step == length - 1
        say(type="step", episode_id=f"e{number}", step=step, action=at, reward=float(at), terminated=ended,
            truncated=False, global_step=at)  # fmt: skip
        time.sleep(pause)
    total = float(sum(range(number * length, (number + 1) * length)))
    say(**{"type": "episode", "episode_id": f"e{number}", "steps": length, "return": total,
           "global_step": (number + 1) * length - 1})  # fmt: skip


def main(ledger: Path, episodes: int, length: int, pause: float, code: int) -> None:
    note(ledger, "begin")
    given = os.environ.get("RUNSPINE_RESUME", "")
    first = json.loads(Path(given).read_text())["done"] if given else 0
    for number in range(first, episodes):
        episode(number, length, pause)
        if (number + 1) % CHECKPOINT_EVERY == 0:
            name = f"checkpoint-{number + 1}.json"
            (Path(os.environ["RUNSPINE_RUN_DIR"]) / name).write_text(json.dumps({"done": number + 1}))
            # A checkpoint's step is how many steps were done, not the number of the last one.
            say(type="artifact", kind="checkpoint", path=name, step=(number + 1) * length)
    note(ledger, "end")
    sys.exit(code)


if __name__ == "__main__":
    where, *numbers = sys.argv[1:]
    main(Path(where), int(numbers[0]), int(numbers[1]), float(numbers[2]), int(numbers[3]))

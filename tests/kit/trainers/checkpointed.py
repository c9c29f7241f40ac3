"""A trainer that is ended often: `checkpointed.py LEDGER STEPS PAUSE CHECKPOINT_EVERY`.

It prints each step once in the plain protocol, resumes from the checkpoint that it is given, and writes
one when it receives SIGTERM. The ledger, outside everything under test, shows when each process of it lived.
Without checkpoints (0) it begins again each time.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path


def emit(**words: object) -> None:
    print(json.dumps(words), flush=True)


class Trainer:
    def __init__(self, ledger: Path, every: int) -> None:
        self.ledger, self.every = ledger, every
        self.done = 0
        self.stopped = False
        if given := os.environ.get("RUNSPINE_RESUME"):
            self.done = int(Path(given).read_text())

    def stop(self, *_: object) -> None:
        self.stopped = True

    def note(self, what: str) -> None:
        run, attempt = os.environ["RUNSPINE_RUN_ID"], os.environ["RUNSPINE_ATTEMPT"]
        with self.ledger.open("a") as file:
            file.write(f"{run} {attempt} {time.monotonic():.4f} {what}\n")

    def save(self) -> None:
        name = f"checkpoint-{self.done}.txt"
        (Path(os.environ["RUNSPINE_RUN_DIR"]) / name).write_text(str(self.done))
        emit(type="artifact", kind="checkpoint", path=name, step=self.done)

    def train(self, steps: int, pause: float) -> None:
        signal.signal(signal.SIGTERM, self.stop)
        self.note("begin")
        while self.done < steps and not self.stopped:
            emit(
                type="step", episode_id=f"e{self.done}", step=0, action=self.done, reward=1.0,
                terminated=True, truncated=False, global_step=self.done,
            )  # fmt: skip
            self.done += 1
            if self.every and self.done % self.every == 0 and self.done < steps:
                self.save()
                self.note("lives")
            time.sleep(pause)
        if self.every and self.stopped:
            self.save()
        self.note("end")


if __name__ == "__main__":
    where, steps, pause, every = sys.argv[1:]
    Trainer(Path(where), int(every)).train(int(steps), float(pause))

"""What simulated trainers do: episodes of known steps, log lines, and checkpoints to resume from."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from runspine.services.worker.process.trainer_process import TrainerExit

if TYPE_CHECKING:
    from tests.simulation.hosts import Hosts, SimulatedTrainer

LENGTH = 3
EPISODES = (3, 8)
CHECKPOINT_EVERY = 2
CHECKPOINT_BYTES = 1500
FAILING_SHARE = 0.4
FROM_ZERO_SHARE = 0.5
PAUSES = (0.01, 0.1, 0.7)


@dataclass(eq=False)
class Training:
    """One trainer process: from the checkpoint that it is given to its end."""

    hosts: Hosts
    trainer: SimulatedTrainer
    node: Any
    environment: dict[str, str]
    episodes: int
    chance: Random
    done: int = 0
    # Episodes of the run before this attempt.
    before: int = 0
    offset: int = 0
    fails_at: int = -1
    lines: int = 0
    # Checkpoints that were announced, and the episodes of the run before each.
    announced: dict[str, int] = field(default_factory=dict)
    finished: bool = False

    @property
    def steps(self) -> int:
        """Of the whole run, when it ends by itself."""
        return self.episodes * LENGTH

    def steps_before(self, done: int) -> range:
        """Steps of this attempt before a checkpoint after so many episodes of the run."""
        return range(self.before * LENGTH, done * LENGTH)

    def begin(self) -> None:
        given = self.environment.get("RUNSPINE_RESUME", "")
        self.before = self.done = int(Path(given).read_bytes().split(b"\n")[0]) if given else 0
        # Some count their steps from 0 again after they were resumed.
        self.offset = self.done * LENGTH if self.chance.random() < FROM_ZERO_SHARE else 0
        if self.chance.random() < FAILING_SHARE:
            self.fails_at = self.chance.randint(self.done + 1, self.episodes + 1)
        self._later(self._episode)

    def _later(self, what: Any) -> None:
        self.hosts.world.loop.after(self.chance.choice(PAUSES), what)

    def _episode(self) -> None:
        if self.trainer.life.end is not None:
            return
        if self.done in (self.episodes, self.fails_at):
            self.finished = True
            code = 1 if self.done == self.fails_at else 0
            self.hosts.end(self.trainer.life, TrainerExit(exit_code=code))
            return
        written = [*self._steps(), f"line {self.lines}".encode()]
        self.lines += 1
        self.done += 1
        has_checkpoint = self.done % CHECKPOINT_EVERY == 0
        if has_checkpoint:
            written.append(self._checkpoint())
        self.write(b"".join(line + b"\n" for line in written))
        if has_checkpoint:
            self.hosts.checkpoint_written(self.trainer.life.worker)
        self._later(self._episode)

    def _steps(self) -> list[bytes]:
        first = self.done * LENGTH
        lines: list[dict[str, Any]] = [
            {
                "type": "step",
                "episode_id": f"e{self.done}",
                "step": at - first,
                "action": at,
                "reward": float(at),
                "terminated": at == first + LENGTH - 1,
                "truncated": False,
                "global_step": at - self.offset,
            }
            for at in range(first, first + LENGTH)
        ]
        last: dict[str, Any] = {"type": "episode", "episode_id": f"e{self.done}", "steps": LENGTH}
        last |= {"return": 1.0, "global_step": first + LENGTH - 1 - self.offset}
        return [json.dumps(line).encode() for line in (*lines, last)]

    def _checkpoint(self) -> bytes:
        name = f"checkpoint-{self.done}.bin"
        life = self.trainer.life
        noise = hashlib.sha256(f"{life.run_id} {self.done}".encode()).hexdigest().encode()
        data = f"{self.done}\n".encode() + noise * (CHECKPOINT_BYTES // len(noise))
        (Path(self.environment["RUNSPINE_RUN_DIR"]) / name).write_bytes(data)
        self.announced[hashlib.sha256(data).hexdigest()] = self.done
        step = self.done * LENGTH - self.offset
        return json.dumps({"type": "artifact", "kind": "checkpoint", "path": name, "step": step}).encode()

    def write(self, data: bytes) -> None:
        """Into the pipe of the worker, which reads it when it runs."""
        if self.node.alive:
            self.hosts.world.loop.within(self.node, self.trainer.stdout.feed_data, data)

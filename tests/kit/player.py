"""A player as a worker would start it, with the test in the place of the worker and of the people."""

from __future__ import annotations

import itertools
import signal
from pathlib import Path
from typing import Any

import numpy as np
import torch

from runspine.trainers.bdi import checkpoint
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse
from tests.kit.paths import ROOT
from tests.kit.samples.checkpoint_files import QNetwork, saved
from tests.kit.samples.episodes import answers
from tests.kit.samples.view import Watcher
from tests.kit.training import Trainer, start
from tests.kit.waiting import until

LEARNER = (ROOT / "runspine/trainers/bdi/plans/learner.asl").read_text()
# The way over the frozen lake: state → action.
WAY = {0: 1, 4: 1, 8: 2, 9: 2, 10: 1, 14: 2}
PLAYER = "runspine.trainers.play.player"


class Game:
    """One session: its process, its socket, and what people see."""

    def __init__(self, folder: Path, *arguments: object, variables: dict[str, str] | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.watcher = Watcher(folder / "v.sock")
        self.trainer: Trainer = start(
            folder,
            [PLAYER, *map(str, arguments)],
            variables={"RUNSPINE_VIEW": str(self.watcher.path), **(variables or {})},
        )
        self._numbers = itertools.count(1)
        self.until(lambda: self.watcher.connections or self.trainer.process.poll() is not None)
        if self.watcher.connections:
            self.watcher.look(fps=30)

    @property
    def hud(self) -> dict[str, Any]:
        seen = self.watcher.seen
        return seen[-1].header["hud"] if seen else {}

    @property
    def lines(self) -> list[dict[str, Any]]:
        return self.trainer.emitted

    def press(self, key: str, *, wait: bool = True) -> None:
        """And let go; with `wait`, see that it has become a step."""
        number = next(self._numbers)
        self.emit(input={"person": "ada", "number": number, "key": key, "down": True})
        if wait:
            self.until(lambda: self.hud.get("input", 0) >= number)
        self.emit(input={"person": "ada", "number": next(self._numbers), "key": key, "down": False})

    def choose(self, actor: str, **how: object) -> None:
        self.emit(actor={"person": "ada", "actor": actor, **how})

    def emit(self, **emitted: object) -> None:
        self.watcher.emit(**emitted)

    def until(self, probe: Any, seconds: float = 90.0) -> None:
        def running() -> bool:
            assert self.trainer.process.poll() is None or probe(), self.trainer.output
            return bool(probe())

        until(running, seconds)

    def noticed(self, text: str) -> str:
        """The notice with this text, once it was shown; the next one may have taken its place since."""
        self.until(lambda: self._notice(text))
        return self._notice(text)

    def _notice(self, text: str) -> str:
        notices = (seen.header["hud"].get("notice", "") for seen in self.watcher.seen)
        return next((notice for notice in notices if text in notice), "")

    def end(self) -> list[GetEpisodeResponse]:
        """Cancel it; its episodes as GetEpisode would answer them."""
        if self.trainer.process.poll() is None:
            self.trainer.process.send_signal(signal.SIGTERM)
        self.trainer.wait()
        self.watcher.close()
        return answers(self.lines)


def actors_in(emitted: GetEpisodeResponse) -> list[tuple[str, int]]:
    """Who acted, and for how many steps, in order."""
    found: list[tuple[str, int]] = []
    for block in emitted.blocks:
        if found and found[-1][0] == block.actor:
            found[-1] = (block.actor, found[-1][1] + block.count)
        else:
            found.append((block.actor, block.count))
    return found


def balancer(path: Path) -> Path:
    """A checkpoint as CleanRL's DQN saves it, whose policy keeps CartPole's pole up."""
    network = QNetwork()
    state = {name: torch.zeros_like(tensor) for name, tensor in network.state_dict().items()}
    lean = torch.tensor([0.1, 0.3, 3.0, 1.0])
    state["network.0.weight"][0], state["network.0.weight"][1] = lean, -lean
    state["network.2.weight"][0, 0] = state["network.2.weight"][1, 1] = 1.0
    state["network.4.weight"][1, 0] = state["network.4.weight"][0, 1] = 1.0
    return saved(path, state)


def walker(path: Path, plan_text: str = LEARNER, states: int = 16) -> Path:
    """A checkpoint of a BDI agent that knows its way over the frozen lake."""
    q, visits = np.zeros((states, 4)), np.zeros((states, 4), np.int64)
    for state, action in WAY.items():
        q[state, action], visits[state, action] = 1.0, 30
    about = {"plan_text": plan_text, "env_id": "FrozenLake-v1", "step": 100, "confidence": 0.75}
    with path.open("wb") as file:
        checkpoint.write(file, {"q": q, "visits": visits}, about)
    return path

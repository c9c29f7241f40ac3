"""An agent in somebody else's env: its plans choose each action, and hear what came of it.

Needs the AgentSpeak interpreter alone: no SPADE, no XMPP.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import agentspeak
import gymnasium as gym

from services.worker.algorithms.checkpoints import Unusable
from services.worker.bdi import checkpoint
from services.worker.bdi.args import Args
from services.worker.bdi.program import BrokenPlans, Program
from services.worker.bdi.table import Unfitting
from services.worker.bdi.world import Misuse, World

# Plans that have not acted within so long are taken for stuck: somebody waits for them.
THINK_SECONDS = 5.0
NAP_SECONDS = 0.01


class Stuck(Exception):
    """The plans choose no action; the message says why."""


class Playing(World):
    """As in an evaluation: no curiosity, no learning. Episodes begin and end as the session says."""

    def __init__(self, args: Args, plan_text: str, run: Any, env: gym.Env[Any, Any]) -> None:
        self._given = env
        super().__init__(args, plan_text, run)
        # What the plans want to do next.
        self.wanted: int | None = None
        self._stands = 0

    def _make_env(self) -> None:
        self._settle(self._given)

    def take(self, path: Path) -> str:
        """The table of a checkpoint; its plans. Raises Unusable."""
        arrays, about = checkpoint.read(path)
        try:
            self.table.take(arrays)
        except Unfitting as error:
            raise Unusable(f"the agent's table does not fit {self.args.env_id}: {error}") from error
        self._confidence = float(about.get("confidence") or 0.0)
        return str(about["plan_text"])

    def stand(self, observation: Any, *, fresh: bool) -> None:
        """What is seen now. A fresh episode waits for the plans' .begin, unless they were cut off in one."""
        self._stands = self._numbered(observation)
        if fresh and not self.over:
            self._arrive(self._stands)

    def came(self, observation: Any, reward: float, terminated: bool, over: bool) -> None:
        """Of the action that was wanted last."""
        assert self.wanted is not None
        self.step = self.run.steps - 1
        self._came(self.wanted, self._numbered(observation), reward, terminated, over)

    # What the plans can do.

    def begin(self) -> None:
        if not self.over:
            raise Misuse(".begin in the middle of an episode: in a session people say when one begins")
        self._arrive(self._stands)

    def act(self, wanted: object) -> None:
        self.wanted = self._checked(wanted)

    @property
    def spent(self) -> bool:
        return False

    def curious(self) -> bool:
        return False

    def finish(self) -> None:
        raise Misuse(".finish: in a session people say when it ends")

    def _learn(self, action: int, gained: float, after: int, terminated: bool) -> None:
        """Nothing: the table stays as it is."""

    def _chart(self) -> None:
        """Nothing: others may have played a part of the episode."""

    def _episode_over(self) -> None:
        """Nothing is saved."""


class Agent:
    """One mind in a session. Raises Unfit, Unusable and BrokenPlans."""

    def __init__(
        self, env: gym.Env[Any, Any], env_id: str, seed: int, run: Any, path: Path | None, plan_text: str
    ) -> None:
        self.world = Playing(Args(env_id=env_id, seed=seed), plan_text, run, env)
        own = self.world.take(path) if path else ""
        self.world.plan_text = plan_text or own
        if not self.world.plan_text:
            raise BrokenPlans("there are no plans: give a checkpoint of an agent, or plans of your own")
        self.program = Program("plans" if plan_text else "plans of the checkpoint", self.world)
        self._first = int(env.action_space.start)  # type: ignore[attr-defined]
        self._fresh = True

    def began(self) -> None:
        """Another episode."""
        self._fresh = True

    def act(self, observation: Any) -> int:
        """Let the plans run until they act. Raises Stuck."""
        world = self.world
        world.stand(observation, fresh=self._fresh)
        self._fresh = False
        world.wanted = None
        until = time.monotonic() + THINK_SECONDS
        while world.wanted is None:
            if not self._think():
                if self.program.mind.at_rest:
                    raise Stuck("its plans have nothing left to do")
                time.sleep(NAP_SECONDS)
            if time.monotonic() > until:
                raise Stuck(f"its plans have not acted for {THINK_SECONDS:g} s")
        return world.wanted + self._first

    def came(self, observation: Any, reward: float, terminated: bool, truncated: bool) -> None:
        self.world.came(observation, reward, terminated, terminated or truncated)

    def _think(self) -> bool:
        try:
            return bool(self.program.agent.step())
        except (agentspeak.AslError, agentspeak.AggregatedError) as error:
            raise Stuck(f"its plans fail: {self.program.explained(error)}") from error

"""A BDI agent as an actor of a play session: its plans choose each action and receive its result.

Needs only the AgentSpeak interpreter, no SPADE and no XMPP.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import agentspeak
import gymnasium as gym

from runspine.trainers.bdi import checkpoint
from runspine.trainers.bdi.args import Args
from runspine.trainers.bdi.program import PlansError, Program
from runspine.trainers.bdi.table import TableMismatchError
from runspine.trainers.bdi.world import PlanActionError, World
from runspine.trainers.builtin.checkpoints import CheckpointUnusableError

# Plans that have not acted within this time count as stuck.
THINK_SECONDS = 5.0
POLL_SECONDS = 0.01


class AgentStuckError(Exception):
    """The plans choose no action; the message gives the reason."""


class PlayWorld(World):
    """World of a play session: no exploration, no learning. The session begins and ends episodes."""

    def __init__(self, args: Args, plan_text: str, run: Any, env: gym.Env[Any, Any]) -> None:
        self._given = env
        super().__init__(args, plan_text, run)
        # The next action that the plans chose.
        self.wanted: int | None = None
        self._stands = 0

    def _make_env(self) -> None:
        self._check_spaces(self._given)

    def take(self, path: Path) -> str:
        """Load the table of a checkpoint; return its plans. Raises CheckpointUnusableError."""
        arrays, about = checkpoint.read(path)
        try:
            self.table.take(arrays)
        except TableMismatchError as error:
            raise CheckpointUnusableError(
                f"the agent's table does not fit {self.args.env_id}: {error}"
            ) from error
        self._confidence = float(about.get("confidence") or 0.0)
        return str(about["plan_text"])

    def stand(self, observation: Any, *, fresh: bool) -> None:
        """Set the observation. A fresh episode waits for .begin, unless the plans are still in one."""
        self._stands = self._numbered(observation)
        if fresh and not self.over:
            self._arrive(self._stands)

    def came(self, observation: Any, reward: float, terminated: bool, over: bool) -> None:
        """Process the result of the action that the plans chose last."""
        assert self.wanted is not None
        self.step = self.run.steps - 1
        self._came(self.wanted, self._numbered(observation), reward, terminated, over)

    # Actions of the plans.

    def begin(self) -> None:
        if not self.over:
            raise PlanActionError(
                ".begin in the middle of an episode: in a session the session begins episodes"
            )
        self._arrive(self._stands)

    def act(self, wanted: object) -> None:
        self.wanted = self._checked(wanted)

    @property
    def spent(self) -> bool:
        return False

    def curious(self) -> bool:
        return False

    def finish(self) -> None:
        raise PlanActionError(".finish: a session is ended by its viewers")

    def _learn(self, action: int, gained: float, after: int, terminated: bool) -> None:
        """Keep the table as it is."""

    def _chart(self) -> None:
        """Record nothing: other actors may have played a part of the episode."""

    def _episode_over(self) -> None:
        """Save nothing."""


class BdiActor:
    """A BDI agent in a session. Raises AgentEnvError, CheckpointUnusableError and PlansError."""

    def __init__(
        self, env: gym.Env[Any, Any], env_id: str, seed: int, run: Any, path: Path | None, plan_text: str
    ) -> None:
        self.world = PlayWorld(Args(env_id=env_id, seed=seed), plan_text, run, env)
        own = self.world.take(path) if path else ""
        self.world.plan_text = plan_text or own
        if not self.world.plan_text:
            raise PlansError("there are no plans: give a checkpoint of an agent, or plans of your own")
        self.program = Program("plans" if plan_text else "plans of the checkpoint", self.world)
        self._first = int(env.action_space.start)  # type: ignore[attr-defined]
        self._fresh = True

    def began(self) -> None:
        """Note that another episode begins."""
        self._fresh = True

    def act(self, observation: Any) -> int:
        """Let the plans run until they act. Raises AgentStuckError."""
        world = self.world
        world.stand(observation, fresh=self._fresh)
        self._fresh = False
        world.wanted = None
        until = time.monotonic() + THINK_SECONDS
        while world.wanted is None:
            if not self._think():
                if self.program.mind.at_rest:
                    raise AgentStuckError("its plans have nothing left to do")
                time.sleep(POLL_SECONDS)
            if time.monotonic() > until:
                raise AgentStuckError(f"its plans have not acted for {THINK_SECONDS:g} s")
        return world.wanted + self._first

    def came(self, observation: Any, reward: float, terminated: bool, truncated: bool) -> None:
        self.world.came(observation, reward, terminated, terminated or truncated)

    def _think(self) -> bool:
        try:
            return bool(self.program.agent.step())
        except (agentspeak.AslError, agentspeak.AggregatedError) as error:
            raise AgentStuckError(f"its plans fail: {self.program.explained(error)}") from error

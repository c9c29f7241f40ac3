"""Lets actors drive an env live, and people say who and how.

`python -m services.worker.play.player --env-id CartPole-v1 [--actor human] …`. Episode k begins with
`env.reset(seed=seed + k)`, so that two sessions with one seed see the same beginnings.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import runspine
from services.worker.algorithms.envs import Unfit, make
from services.worker.algorithms.fork import Fork
from services.worker.algorithms.training import Stopped, say
from services.worker.play.actors import (
    BDI,
    HUMAN,
    POLICY,
    RANDOM,
    Actor,
    Loading,
    NoActor,
    agent,
    chance,
    policy,
)
from services.worker.play.keys import is_turn_based, keys_for
from services.worker.play.orders import Choose, order_of
from services.worker.play.session import Session, shown

# Longest time without a look at signals and at what has been loaded.
REST_SECONDS = 0.05
# How long the end of an episode is shown to a person who has played it.
HOLD_SECONDS = 1.0
# While nothing moves, the same picture is shown again.
SOON_SECONDS, RARELY_SECONDS = 0.1, 1.0
# Where an env does not say how fast it is meant to be seen.
USUAL_RATE = 30.0


class Player:
    """One env, one session."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self._signal = 0
        signal.signal(signal.SIGTERM, self._hear)
        signal.signal(signal.SIGINT, self._hear)
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))
        self.run = runspine.init(config={**vars(asked), "fork": str(asked.fork or "")})
        self.fork = Fork(asked.fork) if asked.fork else None
        self.bare = self.fork.env() if self.fork else make(asked.env_id, asked.env_kwargs)
        self.session = self._session()
        self.env = runspine.wrap(self.bare, slot=0)
        self.observation: Any = None
        self.episodes = 0
        # Whether what viewers see is not how things stand, and for whom it was drawn.
        self._stale = True
        self._look: object = None
        self._again = 0.0
        self.run.view.open()

    def _session(self) -> Session:
        asked, bare = self.asked, self.bare
        meanings: list[str] = getattr(bare.unwrapped, "get_action_meanings", list)()
        turns = asked.turn_based
        session = Session(
            Actor(HUMAN),
            keys_for(asked.env_id, bare.action_space, meanings),
            self._find,
            turn_based=is_turn_based(asked.env_id, bare.observation_space) if turns is None else turns,
            steps_per_second=asked.steps_per_second or _rate(bare),
        )
        try:
            found = self._find(Choose(asked.actor, asked.checkpoint), later=False)
        except NoActor as error:
            raise Unfit(f"{shown(asked.actor)} cannot act in {asked.env_id}: {error}") from error
        assert isinstance(found, Actor)
        session.actor = found
        return session

    def _find(self, choice: Choose, later: bool = True) -> Actor | Loading:
        name, path, asked = choice.actor, choice.path, self.asked
        if name == HUMAN:
            if keys_for(asked.env_id, self.bare.action_space) is None:
                raise NoActor(f"no keys can say {self.bare.action_space}: choose random or a policy")
            return Actor(HUMAN)
        if name == RANDOM:
            return chance(self.bare.action_space, asked.seed)
        load: Callable[[], Actor]
        if name.startswith(POLICY) and path is not None:
            load = partial(policy, name, path, self.bare, asked.env_id, asked.seed)
        elif name.partition(":")[0] == BDI and (path is not None or not later):
            # Plans of its own are for the one that the session begins with.
            plans = "" if later or asked.plans is None else asked.plans.read_text()
            load = partial(agent, name, path, plans, self.bare, asked.env_id, asked.seed, self.run)
        else:
            raise NoActor(
                f"nobody has this name; there are {HUMAN}, {RANDOM}, {POLICY}<sha256> and {BDI}:<sha256>"
            )
        return Loading(name, load) if later else load()

    def go(self) -> None:
        """All episodes; Stopped when a signal asked for the end."""
        asked = self.asked
        how = (
            "each step waits for a key" if self.session.turn_based else f"{self.session.steps_per_second:g}/s"
        )
        say(f"{shown(self.session.actor.name)} in {asked.env_id}, seed {asked.seed}: {how}")
        try:
            while not asked.episodes or self.episodes < asked.episodes:
                self._episode()
        except Stopped:
            say(f"stopped after {self.episodes:,} episodes")
            raise
        finally:
            self.env.close()
            self.run.finish()

    def _episode(self) -> None:
        """One, to its end or until another is asked for. Raises Stopped."""
        session = self.session
        value, length = self._begin()
        done = False
        while not done:
            self._until_due()
            if session.reset_asked:
                say(f"episode {self.episodes}: given up after {length:,} steps")
                break
            try:
                reward, done = self._step()
            except NoActor as error:
                self._give_back(error)
                continue
            value += reward
            length += 1
        else:
            self._ended(f"episode {self.episodes}: return {value:.6g} in {length:,} steps")
        self.episodes += 1

    def _ended(self, result: str) -> None:
        """A person sees how it came out before the next one begins. Raises Stopped."""
        say(result)
        self.session.notice = result
        until = time.monotonic() + HOLD_SECONDS
        while self.session.human and time.monotonic() < until and not self.session.reset_asked:
            self._show(HOLD_SECONDS)
            self._listen(REST_SECONDS)

    def _give_back(self, why: NoActor) -> None:
        """Raises Unfit when there is nobody who could go on."""
        stuck = self.session.actor.name
        try:
            self.session.give_back(why)
        except NoActor as error:
            raise Unfit(f"{shown(stuck)} cannot go on in {self.asked.env_id}: {error}") from error
        say(self.session.notice)

    def _step(self) -> tuple[float, bool]:
        """Raises NoActor."""
        drawn, actor = self.run.view.drawn, self.session.actor
        self.env.tape.hand_to(actor.name)
        action = self.session.act(self.observation, time.monotonic())
        self._tell()
        self.observation, reward, terminated, truncated, _ = self.env.step(action)
        actor.came(self.observation, float(reward), bool(terminated), bool(truncated))
        self._stale = self.run.view.drawn == drawn
        return float(reward), bool(terminated or truncated)

    def _begin(self) -> tuple[float, int]:
        self.session.began()
        fork, self.fork = self.fork, None
        if fork is None:
            self.observation, _ = self.env.reset(seed=self.asked.seed + self.episodes)
            return 0.0, 0
        stands = fork.reach(self.env)
        self.observation = stands.observation
        say(f"{fork.name} replayed exactly: {stands.steps:,} steps, return {stands.value:.6g}")
        return stands.value, stands.steps

    def _until_due(self) -> None:
        """Hear what is said until the next step is due, or another episode is wanted. Raises Stopped."""
        session = self.session
        self._listen(0.0)
        while True:
            wait = session.wait(time.monotonic())
            if session.reset_asked or wait <= 0:
                return
            self._show(wait)
            self._listen(min(wait, REST_SECONDS))

    def _tell(self) -> None:
        """What stands beside the next picture."""
        session = self.session
        told = {
            "actor": session.actor.name,
            "waiting": session.waiting,
            "notice": session.notice,
            "input": session.applied,
            "turn_based": session.turn_based,
            "paused": session.paused,
            "pace": session.steps_per_second,
            "keys": [{"key": key, "action": action} for key, action in session.hints],
        }
        if told != self.run.view.about:
            self.run.view.about = told
            self._stale = True

    def _show(self, wait: float) -> None:
        """Draw what has changed, if there is time until the next step and somebody who looks."""
        view, now = self.run.view, time.time()
        self._tell()
        if wait > REST_SECONDS and self._stale:
            # Nobody knows when the next step comes: this one is to be on the log now.
            self.run.flush()
        if view.look is not self._look:
            self._look, self._stale = view.look, True
        idle = wait > REST_SECONDS
        if view.look is None or not (
            (self._stale and (idle or view.due(0, now))) or (idle and now > self._again)
        ):
            return
        # A frame may be lost, and when nothing moves no other follows: said again soon, then rarely.
        self._again = now + (SOON_SECONDS if self._stale else RARELY_SECONDS)
        self._stale = False
        self.env.tape.show(now)

    def _listen(self, seconds: float) -> None:
        """Take in all that is said, waiting at most so long for the first word. Raises Stopped."""
        session, told = self.session, self.session.notice
        commands = self.run.view.commands
        with contextlib.suppress(queue.Empty):
            said = commands.get(timeout=seconds) if seconds > 0 else commands.get_nowait()
            while True:
                if order := order_of(said):
                    session.hear(order)
                said = commands.get_nowait()
        session.settle()
        if session.notice != told:
            say(session.notice)
        if self._signal:
            raise Stopped(self._signal)

    def _hear(self, number: int, frame: object) -> None:
        self._signal = number


def _rate(env: Any) -> float:
    rate = env.metadata.get("render_fps") or USUAL_RATE
    return min(max(float(rate), 0.1), 10_000.0)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--env-id", required=True, help="env to act in")
    add("--env-kwargs", default="", help="arguments of gymnasium.make, as a JSON object")
    add("--actor", default=HUMAN, help="human, random, policy:<sha256> or bdi[:<sha256>]: who acts first")
    given = os.environ.get("RUNSPINE_RESUME")
    add("--checkpoint", type=Path, default=given, help="the file of that policy or agent")
    add("--plans", type=Path, help="file with AgentSpeak plans for an agent that acts first")
    add("--seed", type=int, default=1, help="episode k begins with seed + k")
    add("--steps-per-second", type=float, default=0.0, help="the env's own frame rate when absent")
    add("--turn-based", action=argparse.BooleanOptionalAction, help="each step of a person waits for a key")
    add("--episodes", type=int, default=0, help="until told to stop when absent")
    add("--fork", type=Path, help="file with the fork point of an episode to begin in")
    return parser


def main() -> None:
    try:
        Player(arguments().parse_args()).go()
    except Unfit as error:
        sys.exit(str(error))
    except Stopped as stopped:
        sys.exit(128 + stopped.number)


if __name__ == "__main__":
    main()

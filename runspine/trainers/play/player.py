"""Process of a play session: actors act in an env, and people choose who and how.

`python -m runspine.trainers.play.player --env-id CartPole-v1 [--actor human] …`. Episode k begins with
`env.reset(seed=seed + k)`, so that two sessions with one seed have the same starts.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import queue
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

import runspine
from runspine.play.actor_names import FORMS, HUMAN, shown
from runspine.trainers.builtin.envs import EnvUnfitError, make
from runspine.trainers.builtin.fork import Fork
from runspine.trainers.builtin.training import StoppedError
from runspine.trainers.output import echo
from runspine.trainers.play.actors import NoActorError, PlayActor
from runspine.trainers.play.casting import Casting
from runspine.trainers.play.chat_actor import take_variables
from runspine.trainers.play.keys import is_turn_based, keys_for
from runspine.trainers.play.orders import ActorOrder, parse_order
from runspine.trainers.play.session import Session

# Interval at which signals and loaded policies are checked.
POLL_SECONDS = 0.05
# How long the end of an episode is shown to a person who has played it.
HOLD_SECONDS = 1.0
# While nothing moves, the same frame is sent again.
REPEAT_SOON_SECONDS, REPEAT_SECONDS = 0.1, 1.0
# For envs without a frame rate.
DEFAULT_RATE = 30.0


class Player:
    """A session in one env."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        # Before the env is made: its code is not ours.
        self._llm = take_variables()
        self._signal = 0
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))
        self.run = runspine.init(config={**vars(args), "fork": str(args.fork or "")})
        self.fork = Fork(args.fork) if args.fork else None
        self.bare = self.fork.env() if self.fork else make(args.env_id, args.env_kwargs)
        self.session = self._session()
        self.env = runspine.wrap(self.bare, slot=0)
        self.observation: Any = None
        self.episodes = 0
        # Whether viewers see an outdated frame, and for which request it was drawn.
        self._stale = True
        self._drawn_for: object = None
        self._again = 0.0
        self.run.view.open()

    def _session(self) -> Session:
        args, bare = self.args, self.bare
        meanings: list[str] = getattr(bare.unwrapped, "get_action_meanings", list)()
        turns = args.turn_based
        casting = Casting(bare, args.env_id, args.seed, self.run, self._llm)
        session = Session(
            PlayActor(HUMAN),
            keys_for(args.env_id, bare.action_space, meanings),
            casting.find,
            turn_based=is_turn_based(args.env_id, bare.observation_space) if turns is None else turns,
            steps_per_second=args.steps_per_second or _rate(bare),
        )
        plans = args.plans.read_text() if args.plans else ""
        try:
            session.actor = casting.first(ActorOrder(args.actor, args.checkpoint), plans)
        except NoActorError as error:
            raise EnvUnfitError(f"{shown(args.actor)} cannot act in {args.env_id}: {error}") from error
        return session

    def run_episodes(self) -> None:
        """Play all episodes. Raises StoppedError on a signal."""
        args = self.args
        how = (
            "each step waits for a key" if self.session.turn_based else f"{self.session.steps_per_second:g}/s"
        )
        echo(f"{shown(self.session.actor.name)} in {args.env_id}, seed {args.seed}: {how}")
        try:
            while not args.episodes or self.episodes < args.episodes:
                self._episode()
        except StoppedError:
            echo(f"stopped after {self.episodes:,} episodes")
            raise
        finally:
            self.env.close()
            self.run.finish()

    def _episode(self) -> None:
        """Play one episode to its end or until a reset is requested. Raises StoppedError."""
        session = self.session
        value, length = self._begin()
        done = False
        while not done:
            self._until_due()
            if session.reset_asked:
                echo(f"episode {self.episodes}: given up after {length:,} steps")
                break
            try:
                reward, done = self._step()
            except NoActorError as error:
                self._give_back(error)
                continue
            value += reward
            length += 1
        else:
            self._ended(f"episode {self.episodes}: return {value:.6g} in {length:,} steps")
        self.episodes += 1

    def _ended(self, result: str) -> None:
        """Show the result to a person before the next episode begins. Raises StoppedError."""
        echo(result)
        self.session.notice = result
        until = time.monotonic() + HOLD_SECONDS
        while self.session.human and time.monotonic() < until and not self.session.reset_asked:
            self._show(HOLD_SECONDS)
            self._listen(POLL_SECONDS)

    def _give_back(self, why: NoActorError) -> None:
        """Return control to the previous actor. Raises EnvUnfitError when there is none."""
        stuck = self.session.actor.name
        try:
            self.session.give_back(why)
        except NoActorError as error:
            raise EnvUnfitError(f"{shown(stuck)} cannot go on in {self.args.env_id}: {error}") from error
        echo(self.session.notice)

    def _step(self) -> tuple[float, bool]:
        """Take one step. Raises NoActorError."""
        drawn, session = self.run.view.drawn, self.session
        try:
            action = session.act(self.observation, time.monotonic())
        finally:
            self._record_turns()
        self.env.recorder.set_actor(session.chooser)
        self._update_hud()
        self.observation, reward, terminated, truncated, _ = self.env.step(action)
        session.came(self.observation, float(reward), bool(terminated), bool(truncated))
        self._stale = self.run.view.drawn == drawn
        return float(reward), bool(terminated or truncated)

    def _record_turns(self) -> None:
        """Record what an actor that answers in words was asked and answered."""
        episode = self.env.recorder.episode
        for turn in self.session.actor.turns():
            self.run.log_turn(**turn, episode_id=episode.id if episode else "", step=self.run.steps)

    def _begin(self) -> tuple[float, int]:
        self.session.began()
        fork, self.fork = self.fork, None
        if fork is None:
            self.observation, _ = self.env.reset(seed=self.args.seed + self.episodes)
            return 0.0, 0
        stands = fork.reach(self.env)
        self.observation = stands.observation
        echo(f"{fork.name} replayed exactly: {stands.steps:,} steps, return {stands.value:.6g}")
        return stands.value, stands.steps

    def _until_due(self) -> None:
        """Process orders until the next step is due, or a reset is requested. Raises StoppedError."""
        session = self.session
        self._listen(0.0)
        while True:
            wait = session.wait(time.monotonic())
            if session.reset_asked or (wait <= 0 and session.think(self.observation)):
                return
            # A slow actor is thinking: look again soon.
            wait = wait or 2 * POLL_SECONDS
            self._show(wait)
            self._listen(min(wait, POLL_SECONDS))

    def _update_hud(self) -> None:
        """Update the fields shown with the next frame."""
        session = self.session
        fields = {
            "actor": session.actor.name,
            "waiting": session.waiting,
            "notice": session.notice,
            "input": session.applied,
            "turn_based": session.turn_based,
            "paused": session.paused,
            "pace": session.steps_per_second,
            "keys": [{"key": key, "action": action} for key, action in session.hints],
        }
        if fields != self.run.view.about:
            self.run.view.about = fields
            self._stale = True

    def _show(self, wait: float) -> None:
        """Draw a change, if there is time until the next step and there are viewers."""
        view, now = self.run.view, time.time()
        self._update_hud()
        if wait > POLL_SECONDS and self._stale:
            # The next step may be far away: write this one now.
            self.run.flush()
        if view.request is not self._drawn_for:
            self._drawn_for, self._stale = view.request, True
        idle = wait > POLL_SECONDS
        if view.request is None or not (
            (self._stale and (idle or view.due(0, now))) or (idle and now > self._again)
        ):
            return
        # A frame may be lost, and when nothing moves no other follows: repeat it soon, then rarely.
        self._again = now + (REPEAT_SOON_SECONDS if self._stale else REPEAT_SECONDS)
        self._stale = False
        self.env.recorder.show(now)

    def _listen(self, seconds: float) -> None:
        """Process all pending orders, waiting at most `seconds` for the first. Raises StoppedError."""
        session, notice = self.session, self.session.notice
        commands = self.run.view.commands
        with contextlib.suppress(queue.Empty):
            message = commands.get(timeout=seconds) if seconds > 0 else commands.get_nowait()
            while True:
                if order := parse_order(message):
                    session.process(order)
                message = commands.get_nowait()
        session.settle()
        if session.notice != notice:
            echo(session.notice)
        if self._signal:
            raise StoppedError(self._signal)

    def _on_signal(self, number: int, frame: object) -> None:
        self._signal = number


def _rate(env: Any) -> float:
    rate = env.metadata.get("render_fps") or DEFAULT_RATE
    return min(max(float(rate), 0.1), 10_000.0)


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--env-id", required=True, help="env to act in")
    add("--env-kwargs", default="", help="arguments of gymnasium.make, as a JSON object")
    add("--actor", default=HUMAN, help=f"{FORMS}: who acts first")
    given = os.environ.get("RUNSPINE_RESUME")
    add("--checkpoint", type=Path, default=given, help="the file of that policy or agent")
    add("--plans", type=Path, help="file with AgentSpeak plans for an agent that acts first")
    add("--seed", type=int, default=1, help="episode k begins with seed + k")
    add("--steps-per-second", type=float, default=0.0, help="the env's own frame rate when absent")
    add("--turn-based", action=argparse.BooleanOptionalAction, help="each step of a person waits for a key")
    add("--episodes", type=int, default=0, help="until cancelled when absent")
    add("--fork", type=Path, help="file with the fork point of an episode to begin in")
    return parser


def main() -> None:
    try:
        Player(arguments().parse_args()).run_episodes()
    except EnvUnfitError as error:
        sys.exit(str(error))
    except StoppedError as stopped:
        sys.exit(128 + stopped.number)


if __name__ == "__main__":
    main()

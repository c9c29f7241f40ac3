"""Records the steps of one env slot.

Rows are collected in columns and written as one `steps` line: at the end of an episode, when there are
enough of them, or when the oldest has waited long enough.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from runspine.sdk import lines
from runspine.sdk.columns import (
    Column,
    ColumnTypeChangedError,
    NewestOnly,
    NumberColumn,
    column_for,
    observation_column,
)
from runspine.sdk.drawing import draw_nothing
from runspine.sdk.episode import Episode
from runspine.sdk.identity import Identity
from runspine.sdk.pipe import MAX_WAIT_SECONDS

if TYPE_CHECKING:
    from runspine.sdk.run import Run

MAX_ROWS = 512
MAX_BYTES = 256 << 10
# Approximate size of a line without its columns.
LINE_BYTES = 300
NEVER = 1 << 62
# With a fast env the clock is read after the first step of a block and then after this many.
CLOCK_ROWS = 16

Step = Callable[[Any], Any]


class SlotRecorder:
    """Recorder of one slot. Between steps every column has as many rows as `rewards`.

    Within a step, where a signal handler may take a checkpoint, actions and observations may be one ahead:
    the reward is appended last, and its count is the number of steps.
    """

    count = 1
    # Which of several agents acts in the slot.
    agent = ""

    def __init__(self, run: Run, slot: int) -> None:
        self.run = run
        self.slot = run.rank.slot(slot)
        self.rewards: list[Any] = []
        self.actions: Column = NumberColumn()
        self.observations: Column = NewestOnly()
        self.episode: Episode | None = None
        self.ended = False
        self.resets = 0
        # Steps of this slot that have left the columns.
        self.counted = 0
        # Why recording ended; empty while it goes on.
        self.failure = ""
        self._max_rows = MAX_ROWS
        self._row_bytes = 64
        self._learned = False
        self._cutting = False
        self._ending = False
        self._second_look = 2
        self.began = 0.0
        self._global_step = 0
        self._actor = ""
        # Draws the current state of the env for viewers.
        self.draw = draw_nothing
        self._rebind: Callable[[], None] = lambda: None
        run.add_recorder(self)

    @property
    def steps(self) -> int:
        return self.counted + len(self.rewards)

    @property
    def busy(self) -> bool:
        """Whether a step is in progress; only a signal handler or another thread can see that."""
        return self._cutting or len(self.actions.rows) > len(self.rewards)

    @property
    def cutting(self) -> bool:
        """Whether rows are being written, so that an exception would lose them."""
        return self._cutting or self._ending

    def set_actor(self, actor: str) -> None:
        """Set who chooses the actions from here on; a block of steps has one actor."""
        if actor != self._actor:
            self.cut()
            self._actor = actor

    def recording(self, inner: Step) -> Step:
        """Return `inner` with recording. Names are bound here so that no step looks them up.

        The usual values, a scalar action and an array, are appended without a call; others by their columns.
        """
        rewards, add_reward = self.rewards, self.rewards.append
        ndarray = np.ndarray
        scalars, add_action, keep_action = self.actions.scalars, self.actions.rows.append, self.actions.keep
        dtype, width = self.observations.dtype, self.observations.width
        add_observation, keep_observation = self.observations.rows.append, self.observations.keep
        due = 1

        def step(action: Any) -> Any:
            nonlocal due
            # The action comes first: an env may change it in place.
            try:
                if type(action) in scalars:
                    add_action(action)
                else:
                    keep_action(action)
            except Exception as error:  # noqa: BLE001 - a recorder's error is not the trainer's
                self.change_action_column(action, error)
            try:
                result = inner(action)
            except BaseException:
                self.undo_action()
                raise
            try:
                seen, reward, terminated, truncated, _ = result
                # numpy has one object for each of its dtypes, so that `is` nearly always decides.
                if type(seen) is ndarray and seen.dtype is dtype and len(row := seen.tobytes()) == width:
                    add_observation(row)
                else:
                    keep_observation(seen)
                if terminated or truncated:
                    due = self.add_last(reward, terminated, truncated)
                else:
                    add_reward(reward)
                    if len(rewards) >= due:
                        due = self.tick()
            except BaseException as error:  # noqa: BLE001 - as above; an interrupt is raised again in there
                due = self.change_observation_column(result, error)
            return result

        def rebind() -> None:
            nonlocal scalars, add_action, keep_action, add_reward, due
            nonlocal dtype, width, add_observation, keep_observation
            actions, observations = self.actions, self.observations
            scalars, add_action, keep_action = actions.scalars, actions.rows.append, actions.keep
            dtype, width = observations.dtype, observations.width
            add_observation, keep_observation = observations.rows.append, observations.keep
            due = 1
            if self.failure:
                scalars, dtype, due = frozenset(), None, NEVER
                keep_action = keep_observation = add_reward = _ignore

        self._rebind = rebind
        return step

    def introduce(self, identity: Callable[[], Identity]) -> None:
        """Write the `env` line of the slot. Never raises: a spec may hold anything."""
        if self.run.pipe.open:
            try:
                self.run.pipe.write(lines.env(self.slot, identity(), time.time()))
            except Exception as error:  # noqa: BLE001 - a recorder's error is not the trainer's
                self.run.drop(f"slot {self.slot}: {type(error).__name__}: {error}")

    def begin(
        self, observation: Any, *, seed: Any = None, options: Any = None, rng: Any = None, state: Any = None
    ) -> None:
        """Begin an episode with this observation. Never raises."""
        try:
            self._begin(observation, seed, options, rng, state)
        except Exception as error:  # noqa: BLE001 - a recorder's error is not the trainer's
            self.fail(error)

    def _begin(self, observation: Any, seed: Any, options: Any, rng: Any, state: Any) -> None:
        if self.failure:
            return
        self.cut()
        episode = self._new_episode()
        episode.ordinal, self.resets = self.resets, self.resets + 1
        episode.seed, episode.options, episode.rng, episode.state = seed, options, rng, state
        self._learn_observations(observation)
        self.write_reset(observation)

    def write_reset(self, observation: Any) -> None:
        episode = self.episode
        assert episode is not None
        column = self.observations
        row = column.newest = column.row_of(observation)
        episode.first, episode.first_column, episode.at = row, column, time.time()
        if self.run.pipe.open and episode.id:
            self.run.pipe.write_later(LINE_BYTES, lines.reset, self.slot, episode)

    def add_last(self, reward: Any, terminated: Any, truncated: Any) -> int:
        """Append the last reward of an episode and write its rows, before another thread could."""
        if self.failure:
            return NEVER
        with self.run.lock:
            self.rewards.append(reward)
            now = self._draw_if_due()
            self._end(lines.TERMINATED * bool(terminated) | lines.TRUNCATED * bool(truncated), now)
        return 1

    def _draw_if_due(self) -> float:
        now = time.time()
        if self.run.view.alert and self.run.view.due(self.slot, now):
            self.show(now)
        return now

    def tick(self) -> int:
        """Write what is due by rows or by the clock, and return at how many rows to check again."""
        if self.failure:
            return NEVER
        now = self._draw_if_due()
        rows, view = len(self.rewards), self.run.view
        if rows < 2:
            self._start_block(now)
            return self._second_look
        waited = now - self.began
        # An env that usually makes this many rows within the wait; a slower one is checked at every row.
        self._second_look = CLOCK_ROWS if 0 <= waited < rows * MAX_WAIT_SECONDS / CLOCK_ROWS else 2
        if rows >= self._max_rows:
            self.cut(now)
            return 1
        if not 0 <= waited < MAX_WAIT_SECONDS:
            # All slots at once: otherwise each would follow with a write of its own.
            self.run.flush()
            return 1
        # At most twice as many rows, so that an env that becomes slow is noticed.
        wait = MAX_WAIT_SECONDS - waited
        if view.alert:
            wait = min(wait, view.wait(self.slot, now))
        more = int(rows * wait / (waited + 1e-9)) + 1
        return min(rows + min(rows, more), self._max_rows)

    def show(self, now: float) -> None:
        """Draw the env for viewers, with the fields shown next to the frame."""
        hud: dict[str, Any] = {"step": self.run.steps}
        if (episode := self.episode) is not None:
            steps = episode.steps + len(self.rewards)
            hud |= {"episode_id": episode.id, "episode_step": steps, "episode_return": self._value(episode)}
        self.run.view.take(self.slot, now, self.draw, hud)

    def _value(self, episode: Episode) -> float:
        """Return of the episode so far: of written lines, of pending lines, and of the newest rows."""
        pending = self.run.pipe.pending(lines.steps)
        unwritten = [block.rewards for _, block in pending if block.episode is episode]
        return sum((lines.total(rewards) for rewards in (*unwritten, self.rewards)), episode.value)

    def cut(self, now: float = 0.0, flags: int = 0) -> None:
        """Write the rows so far; the episode goes on."""
        with self.run.lock:
            # A signal handler that interrupts a cut leaves the rows to that cut.
            if not self.rewards or self._cutting:
                return
            self._cutting = True
            try:
                self._cut(now, flags)
            except BaseException as error:
                self.fail(error)
                raise
            finally:
                self._cutting = False
            # The next row is the first of a block.
            self._rebind()

    def _cut(self, now: float, flags: int) -> None:
        count = len(self.rewards)
        actions = (self.actions, self.actions.take(count))
        observations = (self.observations, self.observations.take(count))
        rewards = self.rewards[:count]
        del self.rewards[:count]
        episode = self.episode or self._new_episode()
        first, episode.steps = episode.steps, episode.steps + count
        episode.add_actions(*actions)
        self.counted += count
        pipe = self.run.pipe
        if not pipe.open or not episode.id:
            pipe.count_missed()
            return
        end = now or time.time()
        where = (episode, first, self._global_step, flags, self.began, end)
        block = lines.Block(*where, actions, observations, rewards, self._actor, self.agent, self.run.frames)
        pipe.write_later(LINE_BYTES + count * self._row_bytes, lines.steps, self.slot, block)

    def continue_episode(self, episode: Episode, first: Any, newest: Any, *, ended: bool) -> None:
        """Continue an episode that another recorder has begun, after its newest observation."""
        self.cut()
        self.episode, self.ended = episode, ended
        self.resets = episode.ordinal + 1
        self.run.ids.skip(self.slot, episode.number)
        self._learn_observations(first)
        self.write_reset(first)
        self._learn_observations(newest)
        self.observations.newest = self.observations.row_of(newest)

    def undo_action(self) -> None:
        """Remove an action that the env did not accept."""
        if len(self.actions.rows) > len(self.rewards):
            self.actions.rows.pop()

    def change_action_column(self, action: Any, error: Exception) -> None:
        if not isinstance(error, ColumnTypeChangedError):
            self.fail(error)
            return
        try:
            self.cut()
            self.actions = column_for(action)
            self.actions.keep(action)
            self._rebind()
        except Exception as other:  # noqa: BLE001 - a recorder's error is not the trainer's
            self.fail(other)

    def change_observation_column(self, result: Any, error: BaseException) -> int:
        if not isinstance(error, Exception):
            # Interrupted between two columns: this step is not on record.
            del self.actions.rows[len(self.rewards) :], self.observations.rows[len(self.rewards) :]
            raise error
        if not isinstance(error, ColumnTypeChangedError):
            self.fail(error)
            return NEVER
        try:
            observation, reward, terminated, truncated, _ = result
            self.cut()
            self._learn_observations(observation)
            self.observations.keep(observation)
            if terminated or truncated:
                return self.add_last(reward, terminated, truncated)
            self.rewards.append(reward)
            return self.tick()
        except Exception as other:  # noqa: BLE001 - a recorder's error is not the trainer's
            self.fail(other)
            return NEVER

    def fail(self, error: BaseException) -> None:
        """Stop recording this slot."""
        self.failure = f"{type(error).__name__}: {error}"
        self.rewards.clear()
        self.actions, self.observations = NumberColumn(), NewestOnly()
        self._rebind()
        self.run.drop(f"slot {self.slot} is no longer recorded: {self.failure}")

    def forked(self) -> None:
        """Reset the state after a fork: the parent writes the rows and the episode."""
        self.rewards.clear()
        self.actions.rows.clear()
        self.observations.rows.clear()
        if self.episode is not None:
            self.episode.id = ""

    def _new_episode(self) -> Episode:
        number, name = self.run.ids.next(self.slot)
        self.episode, self.ended = Episode(number, name), False
        return self.episode

    def _position(self) -> int:
        """How far the training is, in steps."""
        return self.run.position()

    def _start_block(self, now: float) -> None:
        self.began = now
        self._global_step = self._position() - 1
        if self.ended or self.episode is None:
            # A step without a reset begins an episode that cannot be replayed.
            self._new_episode()

    def _end(self, flags: int, now: float) -> None:
        self._ending = True
        try:
            if len(self.rewards) == 1:
                self._start_block(now)
            self.cut(now, flags)
            self.ended = True
            episode = self.episode
            if episode is not None:
                episode.over = True
            if episode is not None and episode.id and self.run.pipe.open:
                self.run.pipe.write_later(
                    LINE_BYTES, lines.episode, self.slot, episode, flags, self._position(), now, self.agent
                )
        finally:
            self._ending = False

    def _learn_observations(self, observation: Any) -> None:
        if not self._learned or not self.observations.fits(observation):
            self.observations = observation_column(observation, self.run.capture)
            self._row_bytes = (self.observations.width + 24) * 4 // 3
            self._max_rows = max(1, min(MAX_ROWS, MAX_BYTES // self._row_bytes))
            self._learned = True
            self._rebind()


def _ignore(value: Any) -> None:
    return None

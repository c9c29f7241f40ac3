"""A session as a state machine: who acts, when the next step is due, and what is said to people.

It knows neither the env nor the clock: the player tells it what was heard and what time it is.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from services.worker.play.actors import Actor, Loading, NoActor
from services.worker.play.keys import Hint, Keys
from services.worker.play.orders import Choose, Key, Order, Pace

# One step while it is paused or waits.
STEP = "."
# Moves that a person may be ahead of the env.
MOST_MOVES = 8
NEVER = float("inf")

Find = Callable[[Choose], Actor | Loading]


class Session:
    """`find` gives the actor of a choice, or one on its way; it raises NoActor."""

    def __init__(
        self, actor: Actor, keys: Keys | None, find: Find, *, turn_based: bool, steps_per_second: float
    ) -> None:
        self.actor = actor
        self.keys = keys
        self.turn_based = turn_based
        self.steps_per_second = steps_per_second
        self.paused = False
        self.reset_asked = False
        self.notice = ""
        # Number of the newest key that has become a step.
        self.applied = 0
        self._find = find
        # Who acted before, and goes on when the one who acts cannot.
        self._before: Actor | None = None
        self._loading: Loading | None = None
        self._held: dict[str, int] = {}
        self._moves: deque[tuple[Any, int]] = deque(maxlen=MOST_MOVES)
        self._newest = 0
        self._steps_asked = 0
        self._next = 0.0
        self._last: Any = None
        # Of a key that may be let go before the next step.
        self._tapped: Any = None
        self._ready = False

    @property
    def human(self) -> bool:
        return self.actor.act is None

    @property
    def waiting(self) -> bool:
        """Whether the next step waits for a person."""
        if self._steps_asked and not self.human:
            return False
        if self.paused:
            return True
        if not self.human or self._moves:
            return False
        # In real time the first key of an episode, or after taking over, sets it going.
        return self.turn_based or not self._ready

    @property
    def hints(self) -> list[Hint]:
        return self.keys.hints if self.keys and self.human else []

    def hear(self, order: Order) -> None:
        match order:
            case Key():
                self._key(order)
            case Choose():
                self._choose(order)
            case Pace():
                self._pace(order)

    def settle(self) -> None:
        """Take over from whoever acts, if somebody has come; say why, if not."""
        loading = self._loading
        if loading is None or not loading.done:
            return
        self._loading = None
        try:
            self._take(loading.result())
        except NoActor as error:
            self._refuse(loading.name, str(error))

    def wait(self, now: float) -> float:
        """Seconds until the next step is due; NEVER while somebody is waited for."""
        if self.waiting:
            return NEVER
        if self._steps_asked or self._moves:
            return 0.0
        return max(0.0, self._next - now)

    def act(self, observation: Any, now: float) -> Any:
        """The next action; to be asked for once when the step is due. Raises NoActor."""
        self._steps_asked = max(0, self._steps_asked - 1)
        interval = 1 / self.steps_per_second
        # Late by more than a step, it does not hurry to catch up.
        self._next = self._next + interval if self._next + interval > now else now + interval
        if self.actor.act is not None:
            return self.actor.act(observation)
        if self._moves:
            action, self.applied = self._moves.popleft()
        else:
            action, self.applied = self._action_now(), self._newest
        self._last, self._tapped = action, None
        return action

    def began(self) -> None:
        """An episode: keys pressed in the one before do not count."""
        self.reset_asked = False
        self.actor.began()
        self._forget()

    def give_back(self, why: NoActor) -> None:
        """To whoever acted before the one who cannot go on. Raises NoActor when there was nobody."""
        if self._before is None:
            raise why
        stuck, self.actor, self._before = self.actor, self._before, None
        # It has not seen what happened meanwhile.
        self.actor.began()
        self._forget()
        self.notice = f"{shown(stuck.name)} cannot go on, {shown(self.actor.name)} does: {why}"

    def _key(self, order: Key) -> None:
        if order.key == STEP and order.down:
            self._steps_asked = min(self._steps_asked + 1, MOST_MOVES) if not self.human else 0
            return
        self._held.pop(order.key, None)
        if order.down:
            self._held[order.key] = order.number
        if not self.human or self.keys is None:
            return
        if self.paused or self.keys.chosen([order.key]) is None:
            return
        self._newest = order.number
        if order.down:
            self._ready, self._tapped = True, self.keys.chosen([*self._held])
            if self.turn_based:
                self._moves.append((self._tapped, order.number))

    def _choose(self, order: Choose) -> None:
        try:
            if order.trouble:
                raise NoActor(order.trouble)
            found = self._find(order)
        except NoActor as error:
            self._refuse(order.actor, str(error))
            return
        if isinstance(found, Loading):
            self._loading = found
        else:
            self._loading = None
            self._take(found)

    def _take(self, actor: Actor) -> None:
        self.actor, self._before = actor, self.actor
        self._forget()
        self.notice = f"{shown(actor.name)} acts"

    def _forget(self) -> None:
        self._moves.clear()
        self._last = self._tapped = None
        self._ready = self.keys is not None and self.keys.chosen([*self._held]) is not None

    def _refuse(self, name: str, why: str) -> None:
        self.notice = f"{shown(name)} does not take over, {shown(self.actor.name)} goes on: {why}"

    def _pace(self, order: Pace) -> None:
        if order.steps_per_second > 0:
            self.steps_per_second = min(max(order.steps_per_second, 0.1), 10_000.0)
            self.notice = f"{self.steps_per_second:g} steps a second"
        if order.turn_based is not None:
            self.turn_based = order.turn_based
            self.notice = "each step waits for a key" if self.turn_based else "in real time"
        if order.paused is not None:
            self.paused = order.paused
            self.notice = "paused" if self.paused else "goes on"
        self.reset_asked = self.reset_asked or order.reset
        self._next = 0.0

    def _action_now(self) -> Any:
        """What the held keys mean, or one just let go; else to be at rest; else as before."""
        assert self.keys is not None
        meant = (self.keys.chosen([*self._held]), self._tapped, self.keys.at_rest, self._last)
        return next((action for action in meant if action is not None), None)


def shown(name: str) -> str:
    """A name for people: nobody reads 64 characters."""
    kind, colon, digest = name.partition(":")
    return f"{kind} {digest[:12]}" if colon else name

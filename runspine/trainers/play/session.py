"""State machine of a session: who acts, when the next step is due, and the notice shown to people.

It knows neither the env nor the clock: the player gives it orders and the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from runspine.play.actor_names import HUMAN, shown
from runspine.trainers.play.actors import Loading, NoActorError, PlayActor, Thought
from runspine.trainers.play.keys import Hint, Keys
from runspine.trainers.play.orders import ActorOrder, KeyOrder, Order, PaceOrder

# Key that takes one step while the session is paused or waits.
STEP = "."
# Moves that a person may be ahead of the env.
MAX_MOVES = 8
NEVER = float("inf")

Find = Callable[[ActorOrder], PlayActor | Loading]


class Session:
    """State of a session. `find` returns the actor of an order, or one being loaded; raises NoActorError."""

    def __init__(
        self, actor: PlayActor, keys: Keys | None, find: Find, *, turn_based: bool, steps_per_second: float
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
        # Who chose the newest action: a person, or the agent.
        self.chooser = actor.agent
        self._find = find
        # The previous actor, which takes over when the current one cannot act.
        self._before: PlayActor | None = None
        self._loading: Loading | None = None
        self._thought: Thought | None = None
        # Why the actor fails with its next action.
        self._stuck: NoActorError | None = None
        # In a shared session that waits for keys, people and the agent take turns.
        self._persons_turn = True
        # Whether a person has acted since the agent did.
        self._missed = False
        self._held: dict[str, int] = {}
        self._moves: deque[tuple[Any, int]] = deque(maxlen=MAX_MOVES)
        self._newest = 0
        self._steps_asked = 0
        self._next = 0.0
        self._last: Any = None
        # Action of a key that may be released before the next step.
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
        if self._moves:
            return False
        if not self.human:
            return self.actor.shared and self.turn_based and self._persons_turn
        # In real time the first key of an episode, or after taking over, starts it.
        return self.turn_based or not self._ready

    @property
    def hints(self) -> list[Hint]:
        return self.keys.hints if self.keys and (self.human or self.actor.shared) else []

    def process(self, order: Order) -> None:
        match order:
            case KeyOrder():
                self._key(order)
            case ActorOrder():
                self._choose(order)
            case PaceOrder():
                self._pace(order)

    def settle(self) -> None:
        """Switch to an actor that has been loaded; on failure set the notice."""
        loading = self._loading
        if loading is None or not loading.done:
            return
        self._loading = None
        try:
            self._take(loading.result())
        except NoActorError as error:
            self._refuse(loading.name, str(error))

    def wait(self, now: float) -> float:
        """Seconds until the next step is due; NEVER while it waits for a person."""
        if self.waiting:
            return NEVER
        if self._steps_asked or self._moves:
            return 0.0
        return max(0.0, self._next - now)

    def think(self, observation: Any) -> bool:
        """Whether the action for a step that is due is ready; a slow actor finds it in a thread."""
        if not self.actor.slow or self._person_acts() or self.actor.act is None:
            return True
        if self._thought is None:
            self._catch_up()
            self._thought = Thought(self.actor.act, observation)
        return self._thought.done

    def act(self, observation: Any, now: float) -> Any:
        """The next action; called once when the step is due. Raises NoActorError."""
        person = self.actor.act is None or self._person_acts()
        self._steps_asked = max(0, self._steps_asked - 1)
        interval = 1 / self.steps_per_second
        # Late by more than a step, it does not catch up.
        self._next = self._next + interval if self._next + interval > now else now + interval
        self._persons_turn, self._missed = not person, self._missed or person
        self.chooser = HUMAN if person else self.actor.agent
        return self._persons_action() if person else self._agents_action(observation)

    def came(self, observation: Any, reward: float, terminated: bool, truncated: bool) -> None:
        """Pass the result of a step to the agent that chose it."""
        if self.chooser != HUMAN:
            self._inform(self.actor.came, observation, reward, terminated, truncated)

    def _inform(self, call: Callable[..., None], *args: Any) -> None:
        """Call the actor outside of a step. If it fails, so does its next action."""
        try:
            call(*args)
        except NoActorError as error:
            self._stuck = error

    def _person_acts(self) -> bool:
        """Whether a person takes the next step of a shared session."""
        if not self.actor.shared or self._steps_asked or self.keys is None:
            return False
        if self.turn_based:
            return self._persons_turn and bool(self._moves)
        return self._tapped is not None or self.keys.chosen([*self._held]) is not None

    def _persons_action(self) -> Any:
        # An answer that is still awaited would be for an observation of the past.
        self._thought = None
        if self._moves:
            action, self.applied = self._moves.popleft()
        else:
            action, self.applied = self._action_now(), self._newest
        self._last, self._tapped = action, None
        return action

    def _agents_action(self, observation: Any) -> Any:
        assert self.actor.act is not None
        thought, self._thought = self._thought, None
        if thought is not None:
            return thought.result()
        self._catch_up()
        if self._stuck is not None:
            raise self._stuck
        return self.actor.act(observation)

    def _catch_up(self) -> None:
        """Inform an agent that others have acted since its last action."""
        if self._missed:
            self._missed = False
            self._inform(self.actor.began)

    def began(self) -> None:
        """Begin an episode: keys pressed in the one before do not count."""
        self.reset_asked = False
        self._forget()
        self._inform(self.actor.began)

    def give_back(self, why: NoActorError) -> None:
        """Return control to the previous actor. Raises NoActorError when there is none."""
        if self._before is None:
            raise why
        stuck, self.actor, self._before = self.actor, self._before, None
        self._forget()
        # It has not seen the steps in between.
        self._inform(self.actor.began)
        self.notice = f"{shown(stuck.name)} cannot go on, {shown(self.actor.name)} does: {why}"

    def _key(self, order: KeyOrder) -> None:
        if order.key == STEP and order.down:
            self._steps_asked = min(self._steps_asked + 1, MAX_MOVES) if not self.human else 0
            return
        self._held.pop(order.key, None)
        if order.down:
            self._held[order.key] = order.number
        if not (self.human or self.actor.shared) or self.keys is None:
            return
        if self.paused or self.keys.chosen([order.key]) is None:
            return
        self._newest = order.number
        if order.down:
            self._ready, self._tapped = True, self.keys.chosen([*self._held])
            if self.turn_based:
                self._moves.append((self._tapped, order.number))

    def _choose(self, order: ActorOrder) -> None:
        try:
            if order.trouble:
                raise NoActorError(order.trouble)
            found = self._find(order)
        except NoActorError as error:
            self._refuse(order.actor, str(error))
            return
        if isinstance(found, Loading):
            self._loading = found
        else:
            self._loading = None
            self._take(found)

    def _take(self, actor: PlayActor) -> None:
        self.actor, self._before = actor, self.actor
        self._forget()
        self.notice = f"{shown(actor.name)} acts"

    def _forget(self) -> None:
        self._moves.clear()
        self._last = self._tapped = self._thought = None
        self._persons_turn, self._missed, self._stuck = True, False, None
        self._ready = self.keys is not None and self.keys.chosen([*self._held]) is not None

    def _refuse(self, name: str, why: str) -> None:
        self.notice = f"{shown(name)} does not take over, {shown(self.actor.name)} goes on: {why}"

    def _pace(self, order: PaceOrder) -> None:
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
        """Action of the held keys, or of one just released; else the resting action; else the last one."""
        assert self.keys is not None
        meant = (self.keys.chosen([*self._held]), self._tapped, self.keys.at_rest, self._last)
        return next((action for action in meant if action is not None), None)

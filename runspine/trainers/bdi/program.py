"""An AgentSpeak program in a world: parsed, and run in slices of time."""

from __future__ import annotations

import logging
import time

import agentspeak
from agentspeak import runtime

from runspine.trainers.bdi.mind import AgentMind
from runspine.trainers.bdi.vocabulary import actions_of
from runspine.trainers.bdi.world import World

# Steps of the interpreter between two checks of the clock.
STRIDE = 32


class PlansError(Exception):
    """The plans cannot be parsed, or have no plan for the current situation."""


class InterpreterLog(logging.Handler):
    """Last message of the interpreter, with its place in the plans: its exceptions hold only a count."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        # The interpreter only warns of it, but a plan that reaches it fails.
        self.unknown_action = ""

    def emit(self, record: logging.LogRecord) -> None:
        place = getattr(record, "loc", None)
        where = f"{place.filename}:{place.lineno}: " if place else ""
        raised = record.exc_info[1] if record.exc_info else None
        self.last = where + (str(raised) if raised else record.getMessage())
        if "no such action" in self.last:
            self.unknown_action = self.last


class Program:
    """A parsed program. Raises PlansError when the plans cannot be parsed."""

    def __init__(self, name: str, world: World) -> None:
        self.world = world
        self.actions = actions_of(world)
        self.log = InterpreterLog()
        runtime.LOGGER.handlers = [self.log]
        self.environment = runtime.Environment()
        source = agentspeak.StringSource(name, world.plan_text)
        try:
            self.agent = self.environment.build_agent(source, self.actions, name="learner")
        except (agentspeak.AslError, agentspeak.AggregatedError) as error:
            raise PlansError(f"the plans cannot be used: {self.explained(error)}") from error
        if self.log.unknown_action:
            raise PlansError(f"the plans cannot be used: {self.log.unknown_action}")
        self.mind = AgentMind(self.agent)
        world.attach(self.mind)

    def run_for(self, seconds: float) -> bool:
        """Run the plans for this long; return whether they have more to do. Raises agentspeak's errors."""
        world, step = self.world, self.agent.step
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(STRIDE):
                if world.ended or not step():
                    return False
        return True

    def rest_seconds(self, longest: float) -> float:
        """Seconds until something is due, at most `longest`."""
        due = self.agent.shortest_deadline()
        return longest if due is None else min(max(due - self.environment.time(), 0.0), longest)

    def explained(self, error: Exception) -> str:
        """The interpreter's message on one line."""
        return " ".join((self.log.last or str(error)).split())[:500]

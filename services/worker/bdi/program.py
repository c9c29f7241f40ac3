"""An AgentSpeak program over a world: read, run for a while, and asked whether it has more to do."""

from __future__ import annotations

import logging
import time

import agentspeak
from agentspeak import runtime

from services.worker.bdi.mind import Mind
from services.worker.bdi.vocabulary import actions_of
from services.worker.bdi.world import World

# Steps of the interpreter between two looks at the clock.
STRIDE = 32


class BrokenPlans(Exception):
    """The plans cannot be read, or came to a point where they do not know what to do."""


class Complaints(logging.Handler):
    """What the interpreter has logged last, with the place in the plans: its exceptions only count."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.last = ""
        # Only warned of by the interpreter, but sure to fail when a plan comes to it.
        self.unknown_action = ""

    def emit(self, record: logging.LogRecord) -> None:
        place = getattr(record, "loc", None)
        where = f"{place.filename}:{place.lineno}: " if place else ""
        raised = record.exc_info[1] if record.exc_info else None
        self.last = where + (str(raised) if raised else record.getMessage())
        if "no such action" in self.last:
            self.unknown_action = self.last


class Program:
    """Raises BrokenPlans when the plans cannot be read."""

    def __init__(self, name: str, world: World) -> None:
        self.world = world
        self.actions = actions_of(world)
        self.complaints = Complaints()
        runtime.LOGGER.handlers = [self.complaints]
        self.environment = runtime.Environment()
        source = agentspeak.StringSource(name, world.plan_text)
        try:
            self.agent = self.environment.build_agent(source, self.actions, name="learner")
        except (agentspeak.AslError, agentspeak.AggregatedError) as error:
            raise BrokenPlans(f"the plans cannot be used: {self.explained(error)}") from error
        if self.complaints.unknown_action:
            raise BrokenPlans(f"the plans cannot be used: {self.complaints.unknown_action}")
        self.mind = Mind(self.agent)
        world.attach(self.mind)

    def live(self, seconds: float) -> bool:
        """Let the plans run for this long; whether they have more to do. Raises what the interpreter does."""
        world, step = self.world, self.agent.step
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for _ in range(STRIDE):
                if world.ended or not step():
                    return False
        return True

    def rest_seconds(self, longest: float) -> float:
        """How long nothing is due."""
        due = self.agent.shortest_deadline()
        return longest if due is None else min(max(due - self.environment.time(), 0.0), longest)

    def explained(self, error: Exception) -> str:
        """The interpreter's words on one line."""
        return " ".join((self.complaints.last or str(error)).split())[:500]

"""AgentSpeak actions that plans can use, each a method of the world."""

from __future__ import annotations

import agentspeak
from agentspeak import stdlib

from runspine.trainers.bdi.world import World


def actions_of(world: World) -> agentspeak.Actions:
    """Standard actions of AgentSpeak, and ours."""
    actions = agentspeak.Actions(stdlib.actions)
    actions.add_predicate(".curious", (), world.curious)
    actions.add_predicate(".spent", (), lambda: world.spent)
    actions.add_procedure(".begin", (), world.begin)
    actions.add_function(".explore", (), world.explore)
    actions.add_function(".exploit", (), world.exploit)
    actions.add_procedure(".act", (None,), world.act)
    actions.add_procedure(".reflect", (), world.reflect)
    actions.add_procedure(".finish", (), world.finish)
    return actions

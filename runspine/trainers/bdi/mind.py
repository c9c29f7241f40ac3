"""The agent's mind in its interpreter: beliefs, goals and intentions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import agentspeak
from agentspeak.runtime import Agent, BuildTermVisitor, Intention

PERCEPT = frozenset([agentspeak.Literal("source", (agentspeak.Literal("percept"),))])
# Limits of what is recorded of a mind.
MAX_ITEMS = 200
MAX_CHARACTERS = 500


class AgentMind:
    """Access to the beliefs, goals and intentions of an AgentSpeak agent."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def put(self, name: str, *args: Any) -> None:
        """Replace the beliefs of this name by this one."""
        literal = agentspeak.Literal(name, args, PERCEPT)
        group = (name, len(args))
        if self._has_listeners(agentspeak.Trigger.addition, group):
            self.agent.beliefs[group] = set()
            self._call(agentspeak.Trigger.addition, literal)
        else:
            # No plan waits for the event: replacing the set is several times cheaper.
            self.agent.beliefs[group] = {literal}

    def drop(self, name: str, arity: int = 0) -> None:
        """Remove the beliefs of this name."""
        group = (name, arity)
        had = self.agent.beliefs.get(group)
        if not had:
            return
        if self._has_listeners(agentspeak.Trigger.removal, group):
            for literal in list(had):
                self._call(agentspeak.Trigger.removal, literal)
        self.agent.beliefs[group] = set()

    def seen(self) -> dict[str, Any]:
        """Goals, intentions and beliefs in AgentSpeak's notation."""
        stacks = [[_text(held.head_term) for held in stack] for stack in self.agent.intentions if stack]
        return {
            "goals": sorted({stack[0] for stack in stacks})[:MAX_ITEMS],
            "intentions": [" > ".join(stack)[:MAX_CHARACTERS] for stack in stacks[:MAX_ITEMS]],
            "beliefs": sorted(_text(literal)[:MAX_CHARACTERS] for literal in self._beliefs())[:MAX_ITEMS],
        }

    def beliefs(self) -> list[str]:
        """All beliefs with their sources, for `restore`."""
        return sorted(agentspeak.asl_str(literal) for literal in self._beliefs())

    def restore(self, beliefs: list[str]) -> None:
        """Set exactly these beliefs without triggering plans. Raises AggregatedError."""
        log = agentspeak.Log(agentspeak.get_logger(__name__), 3)
        source = agentspeak.StringSource("<checkpoint>", "".join(f"{belief}.\n" for belief in beliefs))
        tokens = agentspeak.lexer.TokenStream(source, log)
        parsed = agentspeak.parser.parse(source.name, tokens, log)
        log.throw()
        self.agent.beliefs.clear()
        for belief in parsed.beliefs:
            self.agent.add_belief(belief.accept(BuildTermVisitor({})), {})

    @property
    def at_rest(self) -> bool:
        """Whether there is no intention, not even a waiting one."""
        return not any(self.agent.intentions)

    def _beliefs(self) -> Iterator[agentspeak.Literal]:
        return (literal for group in self.agent.beliefs.values() for literal in group)

    def _has_listeners(self, trigger: agentspeak.Trigger, group: tuple[str, int]) -> bool:
        if self.agent.plans.get((trigger, agentspeak.GoalType.belief, *group)):
            return True
        return any(True for _ in self.agent.waiters())

    def _call(self, trigger: agentspeak.Trigger, literal: agentspeak.Literal) -> None:
        self.agent.call(trigger, agentspeak.GoalType.belief, literal, Intention())


def _text(literal: Any) -> str:
    """The literal without annotations such as its source."""
    if isinstance(literal, agentspeak.Literal):
        literal = agentspeak.Literal(literal.functor, literal.args)
    return str(agentspeak.asl_str(literal))

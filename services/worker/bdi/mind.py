"""The agent's mind as its interpreter holds it: beliefs in and out, goals and intentions to see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import agentspeak
from agentspeak.runtime import Agent, BuildTermVisitor, Intention

PERCEPT = frozenset([agentspeak.Literal("source", (agentspeak.Literal("percept"),))])
# What is shown of a mind: enough for a person, and never a flood.
MOST_SHOWN = 200
LONGEST_SHOWN = 500


class Mind:
    def __init__(self, agent: Agent) -> None:
        self.agent = agent

    def put(self, name: str, *args: Any) -> None:
        """Believe this instead of whatever was believed under the same name."""
        literal = agentspeak.Literal(name, args, PERCEPT)
        group = (name, len(args))
        if self._heard(agentspeak.Trigger.addition, group):
            self.agent.beliefs[group] = set()
            self._call(agentspeak.Trigger.addition, literal)
        else:
            # Nobody waits for the event: the set is replaced, which is several times cheaper.
            self.agent.beliefs[group] = {literal}

    def drop(self, name: str, arity: int = 0) -> None:
        """Believe nothing under this name."""
        group = (name, arity)
        had = self.agent.beliefs.get(group)
        if not had:
            return
        if self._heard(agentspeak.Trigger.removal, group):
            for literal in list(had):
                self._call(agentspeak.Trigger.removal, literal)
        self.agent.beliefs[group] = set()

    def seen(self) -> dict[str, Any]:
        """Goals, intentions and beliefs in AgentSpeak's own notation."""
        stacks = [[_text(held.head_term) for held in stack] for stack in self.agent.intentions if stack]
        return {
            "goals": sorted({stack[0] for stack in stacks})[:MOST_SHOWN],
            "intentions": [" > ".join(stack)[:LONGEST_SHOWN] for stack in stacks[:MOST_SHOWN]],
            "beliefs": sorted(_text(literal)[:LONGEST_SHOWN] for literal in self._beliefs())[:MOST_SHOWN],
        }

    def beliefs(self) -> list[str]:
        """All of them, with their sources, to be restored."""
        return sorted(agentspeak.asl_str(literal) for literal in self._beliefs())

    def restore(self, beliefs: list[str]) -> None:
        """Believe exactly these. No plan hears of it: they were believed before. Raises AggregatedError."""
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
        """Whether there is no intention, not even one that waits."""
        return not any(self.agent.intentions)

    def _beliefs(self) -> Iterator[agentspeak.Literal]:
        return (literal for group in self.agent.beliefs.values() for literal in group)

    def _heard(self, trigger: agentspeak.Trigger, group: tuple[str, int]) -> bool:
        if self.agent.plans.get((trigger, agentspeak.GoalType.belief, *group)):
            return True
        return any(True for _ in self.agent.waiters())

    def _call(self, trigger: agentspeak.Trigger, literal: agentspeak.Literal) -> None:
        self.agent.call(trigger, agentspeak.GoalType.belief, literal, Intention())


def _text(literal: Any) -> str:
    """Without annotations: where a belief comes from is of little interest on a screen."""
    if isinstance(literal, agentspeak.Literal):
        literal = agentspeak.Literal(literal.functor, literal.args)
    return str(agentspeak.asl_str(literal))

"""Records channels and rules on the log, so that a new rule begins now and not with the first run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from runspine.clock import now_micros
from runspine.eventlog import EventLog
from runspine.eventlog.decider import handle
from runspine.eventlog.subjects import ATTEMPTS, NOTICES_CONFIG, RUNS
from runspine.services.notices.core.triggers import StackRule
from runspine.services.notices.notices_file import NoticesConfig
from runspine.wire.v1.facts_pb2 import Fact, NoticeRuleState, NoticesConfigured


async def configure(log: EventLog, config: NoticesConfig) -> tuple[StackRule, ...]:
    """The rules with the positions from which on they apply; recorded when they have changed."""
    ends = {stream: (await log.extent(stream)).last for stream in (RUNS, ATTEMPTS)}
    handled = await handle(
        log,
        NOTICES_CONFIG,
        lambda before: _changed(before, config, ends),
        _fold,
        tries=None,
    )
    after = {state.name: dict(state.after) for state in handled.state.rules}
    return tuple(replace(rule, after=after[rule.name]) for rule in config.rules)


def _fold(facts: Iterable[Fact], before: NoticesConfigured | None) -> NoticesConfigured:
    found = before or NoticesConfigured()
    for fact in facts:
        found = fact.notices_configured
    return found


def _changed(before: NoticesConfigured, config: NoticesConfig, ends: Mapping[str, int]) -> list[Fact]:
    known = {state.name: state for state in before.rules}
    after = NoticesConfigured(channels=sorted(config.channels))
    for rule in config.rules:
        state = known.get(rule.name)
        if state is None or state.digest != rule.digest:
            state = NoticeRuleState(name=rule.name, digest=rule.digest, after=ends)
        after.rules.append(state)
    return [] if after == before else [Fact(at=now_micros(), notices_configured=after)]

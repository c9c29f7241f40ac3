"""Validation of a spec of mode play. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from runspine.errors import Violation
from runspine.play.actor_names import BDI, FORMS, agent_of, is_actor, kind_of
from runspine.wire.v1.spec_pb2 import PLAY, RunSpec

MAX_EPISODES = 1_000_000
MAX_STEPS_PER_SECOND = 10_000.0
MAX_PLAN_TEXT = 100_000


def play_violations(spec: RunSpec) -> Iterator[Violation]:
    """Every field of the play session that is wrong."""
    if spec.mode == PLAY:
        yield from _check_play(spec)
    elif spec.HasField("play"):
        yield Violation("spec.play", "is for mode play alone: remove it, or set mode: play")


def _check_play(spec: RunSpec) -> Iterator[Violation]:
    wanted = spec.play
    agent = agent_of(wanted.actor)
    if wanted.actor and not is_actor(wanted.actor):
        what = f"{wanted.actor[:80]!r} is not {FORMS}"
        yield Violation("spec.play.actor", f"{what}: `runspine play` finds it")
    elif agent == BDI and not wanted.plan_text:
        what = (
            "an agent without a checkpoint needs play.plan_text: `runspine play --actor bdi:FILE` puts it in"
        )
        yield Violation("spec.play.actor", what)
    if wanted.plan_text and kind_of(agent) != BDI:
        yield Violation("spec.play.plan_text", "is for actor bdi or bdi:<sha256>: remove it")
    if len(wanted.plan_text) > MAX_PLAN_TEXT:
        yield Violation(
            "spec.play.plan_text",
            f"{len(wanted.plan_text)} characters, more than the {MAX_PLAN_TEXT} accepted",
        )
    pace = wanted.steps_per_second
    if not math.isfinite(pace) or not (pace == 0 or 0.1 <= pace <= MAX_STEPS_PER_SECOND):
        what = (
            f"{pace} is out of range: 0.1 to {MAX_STEPS_PER_SECOND:.0f} a second, or 0 for the env's own rate"
        )
        yield Violation("spec.play.steps_per_second", what)
    if wanted.episodes > MAX_EPISODES:
        yield Violation("spec.play.episodes", f"{wanted.episodes} is out of range: at most {MAX_EPISODES}")
    if spec.HasField("warm_start"):
        yield Violation("spec.warm_start", "a session has actors instead: use play.actor: policy:<sha256>")
    if spec.params:
        yield Violation("spec.params", "a session takes no parameters of a training: remove them")

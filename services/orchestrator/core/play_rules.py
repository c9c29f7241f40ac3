"""What a spec of mode play must fulfil. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from runspine.wire.v1.spec_pb2 import PLAY, RunSpec

MOST_EPISODES = 1_000_000
FASTEST = 10_000.0
MOST_PLANS = 100_000
_ACTOR = re.compile(r"(human|random|bdi|(policy|bdi):[0-9a-f]{64})\Z")


def play_flaws(spec: RunSpec) -> Iterator[tuple[str, str]]:
    """Each field that is wrong, and what to do about it."""
    if spec.mode == PLAY:
        yield from _of_play(spec)
    elif spec.HasField("play"):
        yield "spec.play", "is for mode play alone: remove it, or set mode: play"


def _of_play(spec: RunSpec) -> Iterator[tuple[str, str]]:
    wanted = spec.play
    if wanted.actor and not _ACTOR.match(wanted.actor):
        what = f"{wanted.actor[:80]!r} is not human, random, policy:<sha256> or bdi[:<sha256>]"
        yield "spec.play.actor", f"{what}: `runspine play` finds it"
    elif wanted.actor == "bdi" and not wanted.plan_text:
        what = (
            "an agent without a checkpoint needs play.plan_text: `runspine play --actor bdi:FILE` puts it in"
        )
        yield "spec.play.actor", what
    if wanted.plan_text and not wanted.actor.startswith("bdi"):
        yield "spec.play.plan_text", "is for actor bdi or bdi:<sha256>: remove it"
    if len(wanted.plan_text) > MOST_PLANS:
        yield (
            "spec.play.plan_text",
            f"{len(wanted.plan_text)} characters, more than the {MOST_PLANS} accepted",
        )
    pace = wanted.steps_per_second
    if not math.isfinite(pace) or not (pace == 0 or 0.1 <= pace <= FASTEST):
        what = f"{pace} is out of range: 0.1 to {FASTEST:.0f} a second, or 0 for the env's own rate"
        yield "spec.play.steps_per_second", what
    if wanted.episodes > MOST_EPISODES:
        yield "spec.play.episodes", f"{wanted.episodes} is out of range: at most {MOST_EPISODES}"
    if spec.HasField("warm_start"):
        yield "spec.warm_start", "a session has actors instead: use play.actor: policy:<sha256>"
    if spec.params:
        yield "spec.params", "a session takes no parameters of a training: remove them"

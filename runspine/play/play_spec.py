"""Specs of play sessions. Pure; the caller gives the time."""

from __future__ import annotations

from collections.abc import Mapping

from runspine.replay.record import EpisodeRecord
from runspine.sdk.tagged_json import untagged
from runspine.spec.plain import fill_value
from runspine.spec.strict_yaml import node_of
from runspine.wire.v1.spec_pb2 import PLAY, Play, RunSpec, Value

RUNNER = "builtin"


def play_spec(
    env: str,
    play: Play,
    *,
    now: int,
    seed: int = 1,
    env_kwargs: Mapping[str, Value] | None = None,
    project: str = "",
) -> RunSpec:
    kind = play.actor.partition(":")[0] or "human"
    spec = RunSpec(
        name=f"{env}__play-{kind}__{seed}__{now}",
        runner=RUNNER,
        algo="play",
        env=env,
        seed=seed,
        mode=PLAY,
        play=play,
        project=project,
    )
    for name, value in (env_kwargs or {}).items():
        spec.env_kwargs[name].CopyFrom(value)
    return spec


def kwargs_of(record: EpisodeRecord) -> dict[str, Value]:
    """Arguments of the record's env as values of a spec; those that a spec cannot hold are left out."""
    found = {}
    for name, plain in record.kwargs.items():
        value = Value()
        if name != "render_mode" and not fill_value(value, node_of(untagged(plain), ""), name):
            found[name] = value
    return found

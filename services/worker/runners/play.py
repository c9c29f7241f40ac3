"""Launch of a play session. Imports nothing heavy."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from importlib.metadata import distributions, entry_points
from pathlib import Path

from runspine.domain.defaults import DEFAULT_SEED
from runspine.play import llm_settings
from runspine.play.actor_names import BDI, LLM, SCRIPT, agent_of, is_actor, kind_of
from runspine.runners import Launch
from runspine.services.worker.runners.env_check import check_env, env_kwargs
from runspine.trainers.fork_file import write_fork
from runspine.wire.v1.spec_pb2 import RunSpec

PLAYER = "runspine.trainers.play.player"
PACKAGES = ("torch", "gymnasium", "numpy")
EXTRA, SPADE = "runspine[builtin]", "runspine[builtin,spade]"
PLANS = "plans.asl"
# The entry points of actors; runspine.trainers.play.scripts loads them in the session.
ACTORS = "runspine.actors"


def offered_actors(python: str, environment: Mapping[str, str]) -> list[str]:
    """Actors of sessions with this Python besides people, chance and checkpoints. Nothing is imported."""
    if python == sys.executable:
        names = {point.name for point in entry_points(group=ACTORS)}
    else:
        folders = sorted(Path(python).parents[1].glob("lib/python3*/site-packages"))
        found = distributions(path=[str(folder) for folder in folders])
        names = {point.name for package in found for point in package.entry_points.select(group=ACTORS)}
    scripts = [name for name in (f"{SCRIPT}:{each}" for each in sorted(names)) if is_actor(name)]
    return [*scripts, *([LLM] if llm_settings.is_offered(environment) else [])]


def launch_play(spec: RunSpec, run_dir: Path, python: str) -> Launch:
    """The launch. Raises NotReadyError when the env cannot be made; the player checks the actor."""
    agent = kind_of(agent_of(spec.play.actor)) == BDI
    packages = (*PACKAGES, "agentspeak") if agent else PACKAGES
    versions = check_env(python, spec, packages, SPADE if agent else EXTRA).versions
    words = command(python, spec)
    if spec.play.plan_text:
        (run_dir / PLANS).write_text(spec.play.plan_text)
        words += ["--plans", PLANS]
    if spec.play.HasField("fork"):
        words += ["--fork", write_fork(spec.play.fork, run_dir)]
    # Sets of beliefs are iterated in hash order: it must be the same in every session.
    variables = {"PYTHONHASHSEED": "0"}
    # Any actor can be chosen later: a language model, too.
    variables |= {name: os.environ[name] for name in llm_settings.VARIABLES if os.environ.get(name)}
    return Launch(words, run_dir, variables, versions)


def command(python: str, spec: RunSpec) -> list[str]:
    """The command line with every argument; a policy's file comes with RUNSPINE_RESUME."""
    wanted = spec.play
    words = [python, "-m", PLAYER, "--env-id", spec.env, "--actor", wanted.actor or "human"]
    if spec.env_kwargs:
        words += ["--env-kwargs", json.dumps(env_kwargs(spec), sort_keys=True)]
    words += ["--seed", str(spec.seed if spec.HasField("seed") else DEFAULT_SEED)]
    if wanted.steps_per_second:
        words += ["--steps-per-second", str(wanted.steps_per_second)]
    if wanted.HasField("turn_based"):
        words.append("--turn-based" if wanted.turn_based else "--no-turn-based")
    if wanted.episodes:
        words += ["--episodes", str(wanted.episodes)]
    return words

"""A play session as a process. Imports nothing heavy."""

from __future__ import annotations

import json
from pathlib import Path

from runspine.runners import Launch
from runspine.wire.v1.spec_pb2 import RunSpec
from services.worker.forking import write_fork
from services.worker.runners.env_check import check_env, env_kwargs

PLAYER = "services.worker.play.player"
PACKAGES = ("torch", "gymnasium", "numpy")
EXTRA, SPADE = "runspine[builtin]", "runspine[builtin,spade]"
BDI, PLANS = "bdi", "plans.asl"


def launch_play(spec: RunSpec, run_dir: Path, python: str) -> Launch:
    """Raises NotReady when the env cannot be made; whether an actor fits is the player's to say."""
    agent = spec.play.actor.partition(":")[0] == BDI
    check_env(python, spec, (*PACKAGES, "agentspeak") if agent else PACKAGES, SPADE if agent else EXTRA)
    words = command(python, spec)
    if spec.play.plan_text:
        (run_dir / PLANS).write_text(spec.play.plan_text)
        words += ["--plans", PLANS]
    if spec.play.HasField("fork"):
        words += ["--fork", write_fork(spec.play.fork, run_dir)]
    # Sets of beliefs are gone through in the order of their hashes: the same one in every session.
    return Launch(words, run_dir, {"PYTHONHASHSEED": "0"})


def command(python: str, spec: RunSpec) -> list[str]:
    """Every argument in sight; a policy's file comes with RUNSPINE_RESUME."""
    wanted = spec.play
    words = [python, "-m", PLAYER, "--env-id", spec.env, "--actor", wanted.actor or "human"]
    if spec.env_kwargs:
        words += ["--env-kwargs", json.dumps(env_kwargs(spec), sort_keys=True)]
    words += ["--seed", str(spec.seed if spec.HasField("seed") else 1)]
    if wanted.steps_per_second:
        words += ["--steps-per-second", str(wanted.steps_per_second)]
    if wanted.HasField("turn_based"):
        words.append("--turn-based" if wanted.turn_based else "--no-turn-based")
    if wanted.episodes:
        words += ["--episodes", str(wanted.episodes)]
    return words

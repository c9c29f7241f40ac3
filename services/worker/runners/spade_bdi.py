"""The spade_bdi runner: a BDI agent with AgentSpeak plans that learns a Q-table, over XMPP."""

from __future__ import annotations

import json
import re
import socket
from functools import cache
from pathlib import Path
from typing import Any

import runspine
from runspine.domain.defaults import DEFAULT_EPISODES, DEFAULT_SEED
from runspine.runners import Launch, NotReadyError
from runspine.services.worker.runners.args_schema import params_of
from runspine.services.worker.runners.env_check import EnvSpaces, check_env, env_kwargs, missing_packages
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import plain_value
from runspine.wire.v1.runner_pb2 import AlgoInfo, RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, TRAIN, RunSpec, Value

PROGRAM = "runspine.trainers.bdi"
FOLDER = Path(runspine.__file__).parent / "trainers" / "bdi"
PACKAGES = ("spade", "spade_bdi", "agentspeak", "pyjabber", "greenlet", "uvloop", "gymnasium", "numpy")
EXTRA = "runspine[spade]"
ALGO = "qlearning"
FROM_SPEC = frozenset({"env_id", "env_kwargs", "seed", "total_timesteps"})
PASSWORD = "XMPP_PASSWORD"
ANSWER_SECONDS = 5.0
NOT_SLIPPERY = {"is_slippery": Value(boolean=False)}
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")
_JID = re.compile(r"[^@/\s]+@([^@/\s]+)\Z")


class SpadeBdiRunner:
    """Runs a BDI agent of runspine.trainers.bdi."""

    def info(self) -> RunnerInfo:
        return RunnerInfo(
            name="spade_bdi",
            summary="a BDI agent with AgentSpeak plans learns a Q-table; its mind can be watched",
            modes=[TRAIN, EVALUATE],
            algos=[_algo()],
            resumes=True,
            warm_starts=True,
            not_ready=missing_packages("spade_bdi", PACKAGES, EXTRA),
            services=["xmpp (embedded, or your own)"],
            observation_spaces=["Discrete"],
            action_spaces=["Discrete"],
            example=RunSpec(algo=ALGO, env="FrozenLake-v1", env_kwargs=NOT_SLIPPERY, total_steps=2000),
        )

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        if spec.mode == EVALUATE:
            check_evaluation(spec)
        elif spec.algo != ALGO:
            raise NotReadyError(f"algo {not_accepted(spec.algo, [ALGO])}")
        params = {name: plain_value(value) for name, value in spec.params.items()}
        params |= _plans(params, spec.workdir)
        if not _NAME.match(str(params.get("agent_name", ALGO))):
            raise NotReadyError(
                f"params.agent_name {params['agent_name']!r}: letters a-z, digits and . _ - alone"
            )
        spaces = check_env(python, spec, PACKAGES, EXTRA)
        if reason := unfit(spec.env, spaces):
            raise NotReadyError(reason, "env")
        if params.get("xmpp_host"):
            check_server(params, spec.secrets)
        # Sets of beliefs are iterated in hash order: it must be the same in every attempt.
        variables = {"PYTHONHASHSEED": "0"}
        return Launch(command(python, spec, params), run_dir, variables, spaces.versions)


@cache
def _algo() -> AlgoInfo:
    source = (FOLDER / "args.py").read_text()
    summary = "tabular Q-learning; the agent's plans decide when it explores"
    params = params_of(source, without=FROM_SPEC)
    return AlgoInfo(name=ALGO, summary=summary, params=params, warm_starts=True)


def command(python: str, spec: RunSpec, params: dict[str, Any]) -> list[str]:
    """The command line with every argument."""
    words = [python, "-m", PROGRAM, "--env-id", spec.env]
    words += ["--env-kwargs", json.dumps(env_kwargs(spec), sort_keys=True)]
    words += ["--seed", str(spec.seed if spec.HasField("seed") else DEFAULT_SEED)]
    if spec.total_steps:
        words += ["--total-timesteps", str(spec.total_steps)]
    if spec.mode == EVALUATE:
        wanted = spec.evaluation
        options = {"episodes": wanted.episodes or DEFAULT_EPISODES, "batches": wanted.batches or 1}
        words += ["--evaluate", json.dumps({**options, "digest": wanted.digest, "repeat": wanted.repeat})]
    return [*words, "--params", json.dumps(params, sort_keys=True)]


def check_evaluation(spec: RunSpec) -> None:
    """Raises NotReadyError for options of an evaluation that this runner does not support."""
    if spec.evaluation.stochastic:
        raise NotReadyError("evaluation.stochastic: a BDI agent follows its plans, remove it")
    if spec.evaluation.video_frames:
        raise NotReadyError(
            "evaluation.video_frames: the spade_bdi runner films nothing; replay the episodes"
        )
    if not spec.env:
        raise NotReadyError("env is missing: name the one that the checkpoint was trained in")


def unfit(env: str, spaces: EnvSpaces) -> str:
    """Why the env cannot have a Q-table; empty when it can. Pure."""
    for what, space in (("observations", spaces.observations), ("actions", spaces.actions)):
        if space.kind != "Discrete":
            return (
                f"a BDI agent's table needs discrete {what}, and those of {env} are {space.text}: "
                "use a toy-text env such as FrozenLake-v1, CliffWalking-v1 or Taxi-v4, or runner builtin"
            )
    return ""


def _plans(params: dict[str, Any], workdir: str) -> dict[str, str]:
    """The path of the plans; nothing for shipped plans or plans given as text."""
    wanted = str(params.get("plans", ""))
    if params.get("plan_text"):
        if wanted:
            raise NotReadyError("params.plans and params.plan_text are both given: remove one")
        return {}
    shipped = sorted(path.stem for path in (FOLDER / "plans").glob("*.asl"))
    if not wanted or wanted in shipped:
        return {}
    path = Path(workdir, wanted) if workdir else Path(wanted)
    if not path.is_absolute():
        raise NotReadyError(
            f"params.plans {wanted!r} is neither shipped ({', '.join(shipped)}) nor a full path: "
            "give one, or set workdir to its folder"
        )
    if not path.is_file():
        raise NotReadyError(
            f"params.plans: {path} does not exist on this worker; plan_text carries plans along"
        )
    return {"plans": str(path)}


def check_server(params: dict[str, Any], secrets: Any) -> None:
    """Check that the given XMPP server answers as one. Raises NotReadyError."""
    found = _JID.match(str(params.get("xmpp_jid", "")))
    if not found:
        raise NotReadyError("params.xmpp_jid is missing or no address: give one such as learner@example.org")
    if PASSWORD not in secrets:
        raise NotReadyError(f"secrets lacks {PASSWORD}: set it on the worker and name it there")
    host, port = str(params["xmpp_host"]), int(params.get("xmpp_port", 5222))
    if trouble := _greeting(host, port, found[1]):
        raise NotReadyError(
            f"no XMPP server at {host}:{port}: {trouble}. Start it, correct params.xmpp_host and "
            "xmpp_port, or leave xmpp_host empty for an embedded one",
            "params.xmpp_host",
        )


def _greeting(host: str, port: int, domain: str) -> str:
    """Open a stream and read the server's greeting; what is wrong with it."""
    hello = (
        f"<?xml version='1.0'?><stream:stream to='{domain}' version='1.0' xmlns='jabber:client' "
        "xmlns:stream='http://etherx.jabber.org/streams'>"
    )
    try:
        with socket.create_connection((host, port), ANSWER_SECONDS) as connection:
            connection.sendall(hello.encode())
            answer = connection.recv(4096)
    except OSError as error:
        return str(error) or type(error).__name__
    if b"etherx.jabber.org/streams" not in answer:
        return f"it answers {answer[:40]!r}" if answer else "it closed the connection"
    return ""

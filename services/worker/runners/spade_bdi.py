"""The spade_bdi runner: a BDI agent with AgentSpeak plans that learns a table of values, over XMPP."""

from __future__ import annotations

import json
import re
import socket
from functools import cache
from pathlib import Path
from typing import Any

from runspine.nearest import not_accepted
from runspine.plain import plain_value
from runspine.runners import Launch, NotReady
from runspine.wire.v1.runner_pb2 import AlgoInfo, RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, TRAIN, RunSpec, Value
from services.worker.runners.args_schema import params_of
from services.worker.runners.env_check import EnvSpaces, check_env, env_kwargs, what_is_missing

PROGRAM = "services.worker.bdi"
FOLDER = Path(__file__).parents[1] / "bdi"
PACKAGES = ("spade", "spade_bdi", "agentspeak", "pyjabber", "greenlet", "uvloop", "gymnasium", "numpy")
EXTRA = "runspine[spade]"
ALGO = "qlearning"
FROM_SPEC = frozenset({"env_id", "env_kwargs", "seed", "total_timesteps"})
PASSWORD = "XMPP_PASSWORD"
ANSWER_SECONDS = 5.0
DRY = {"is_slippery": Value(boolean=False)}
DEFAULT_EPISODES = 50
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}\Z")
_JID = re.compile(r"[^@/\s]+@([^@/\s]+)\Z")


class SpadeBdiRunner:
    def info(self) -> RunnerInfo:
        return RunnerInfo(
            name="spade_bdi",
            summary="a BDI agent with AgentSpeak plans learns a Q-table; its mind can be watched",
            modes=[TRAIN, EVALUATE],
            algos=[_algo()],
            resumes=True,
            warm_starts=True,
            not_ready=what_is_missing("spade_bdi", PACKAGES, EXTRA),
            services=["xmpp (embedded, or your own)"],
            observation_spaces=["Discrete"],
            action_spaces=["Discrete"],
            example=RunSpec(algo=ALGO, env="FrozenLake-v1", env_kwargs=DRY, total_steps=2000),
        )

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        if spec.mode == EVALUATE:
            check_evaluation(spec)
        elif spec.algo != ALGO:
            raise NotReady(f"algo {not_accepted(spec.algo, [ALGO])}")
        params = {name: plain_value(value) for name, value in spec.params.items()}
        params |= _plans(params, spec.workdir)
        if not _NAME.match(str(params.get("agent_name", ALGO))):
            raise NotReady(f"params.agent_name {params['agent_name']!r}: letters a-z, digits and . _ - alone")
        spaces = check_env(python, spec, PACKAGES, EXTRA)
        if reason := unfit(spec.env, spaces):
            raise NotReady(reason)
        if params.get("xmpp_host"):
            check_server(params, spec.secrets)
        # Sets of beliefs are gone through in the order of their hashes: the same one in every attempt.
        return Launch(command(python, spec, params), run_dir, {"PYTHONHASHSEED": "0"})


@cache
def _algo() -> AlgoInfo:
    source = (FOLDER / "args.py").read_text()
    summary = "tabular Q-learning; the agent's plans decide when it explores"
    return AlgoInfo(name=ALGO, summary=summary, params=params_of(source, without=FROM_SPEC))


def command(python: str, spec: RunSpec, params: dict[str, Any]) -> list[str]:
    words = [python, "-m", PROGRAM, "--env-id", spec.env]
    words += ["--env-kwargs", json.dumps(env_kwargs(spec), sort_keys=True)]
    words += ["--seed", str(spec.seed if spec.HasField("seed") else 1)]
    if spec.total_steps:
        words += ["--total-timesteps", str(spec.total_steps)]
    if spec.mode == EVALUATE:
        wanted = spec.evaluation
        asked = {"episodes": wanted.episodes or DEFAULT_EPISODES, "batches": wanted.batches or 1}
        words += ["--evaluate", json.dumps({**asked, "digest": wanted.digest, "repeat": wanted.repeat})]
    return [*words, "--params", json.dumps(params, sort_keys=True)]


def check_evaluation(spec: RunSpec) -> None:
    """Raises NotReady for what other runners' evaluations can do and this one's cannot."""
    if spec.evaluation.stochastic:
        raise NotReady("evaluation.stochastic: a BDI agent does what its plans say, remove it")
    if spec.evaluation.video_frames:
        raise NotReady("evaluation.video_frames: the spade_bdi runner films nothing; replay the episodes")
    if not spec.env:
        raise NotReady("env is missing: name the one that the checkpoint was trained in")


def unfit(env: str, spaces: EnvSpaces) -> str:
    """Why there can be no table for such an env; empty when there can. Pure."""
    for what, space in (("observations", spaces.observations), ("actions", spaces.actions)):
        if space.kind != "Discrete":
            return (
                f"a BDI agent's table needs discrete {what}, and those of {env} are {space.text}: "
                "use a toy-text env such as FrozenLake-v1, CliffWalking-v1 or Taxi-v4, or runner builtin"
            )
    return ""


def _plans(params: dict[str, Any], workdir: str) -> dict[str, str]:
    """The plans' file as the worker finds it; nothing for plans that are shipped or given as text."""
    wanted = str(params.get("plans", ""))
    if params.get("plan_text"):
        if wanted:
            raise NotReady("params.plans and params.plan_text are both given: remove one")
        return {}
    shipped = sorted(path.stem for path in (FOLDER / "plans").glob("*.asl"))
    if not wanted or wanted in shipped:
        return {}
    path = Path(workdir, wanted) if workdir else Path(wanted)
    if not path.is_absolute():
        raise NotReady(
            f"params.plans {wanted!r} is neither shipped ({', '.join(shipped)}) nor a full path: "
            "give one, or set workdir to its folder"
        )
    if not path.is_file():
        raise NotReady(f"params.plans: {path} does not exist on this worker; plan_text carries plans along")
    return {"plans": str(path)}


def check_server(params: dict[str, Any], secrets: Any) -> None:
    """Whether somebody's XMPP server answers as one. Raises NotReady."""
    found = _JID.match(str(params.get("xmpp_jid", "")))
    if not found:
        raise NotReady("params.xmpp_jid is missing or no address: give one such as learner@example.org")
    if PASSWORD not in secrets:
        raise NotReady(f"secrets lacks {PASSWORD}: set it on the worker and name it there")
    host, port = str(params["xmpp_host"]), int(params.get("xmpp_port", 5222))
    if trouble := _greeting(host, port, found[1]):
        raise NotReady(
            f"no XMPP server at {host}:{port}: {trouble}. Start it, correct params.xmpp_host and "
            "xmpp_port, or leave xmpp_host empty for an embedded one"
        )


def _greeting(host: str, port: int, domain: str) -> str:
    """Open a stream and read the server's first words; what is wrong with them."""
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

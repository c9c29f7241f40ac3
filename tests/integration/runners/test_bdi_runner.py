"""A BDI agent in a process of its own, with a real XMPP server, given its run and stopped as by a worker."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from runspine.runners import NotReadyError
from runspine.services.worker.runners.spade_bdi import SpadeBdiRunner, check_server
from runspine.trainers.bdi import checkpoint
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from tests.kit.paths import ROOT
from tests.kit.training import Trainer, start

DRY = {"is_slippery": False}
LONG = 5_000_000
started: list[Trainer] = []


@pytest.fixture(autouse=True)
def nothing_left_running() -> Iterator[None]:
    yield
    while started:
        process = started.pop().process
        if process.poll() is None:
            process.kill()
            process.wait()


def train(
    folder: Path,
    steps: int,
    env: str = "FrozenLake-v1",
    *,
    kwargs: dict[str, Any] | None = None,
    resume: Path | None = None,
    kind: str = "resume",
    **params: Any,
) -> Trainer:
    made_with = DRY if kwargs is None and env == "FrozenLake-v1" else kwargs or {}
    words = ["runspine.trainers.bdi", "--env-id", env, "--env-kwargs", json.dumps(made_with)]
    words += ["--total-timesteps", str(steps), "--params", json.dumps(params)]
    started.append(start(folder, words, resume=resume, kind=kind))
    return started[-1]


def tables(trainer: Trainer) -> list[Path]:
    found = (trainer.folder / "checkpoints").glob("step-*.npz")
    return sorted(found, key=lambda path: int(path.stem.removeprefix("step-")))


def steps_reported(trainer: Trainer) -> int:
    return sum(line["n"] for line in trainer.emitted if line["type"] == "steps")


def family(trainer: Trainer) -> list[psutil.Process]:
    try:
        return psutil.Process(trainer.process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def listening(processes: list[psutil.Process]) -> list[tuple[str, int]]:
    return [
        (connection.laddr.ip, connection.laddr.port)
        for process in processes
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    ]


def all_gone(processes: list[psutil.Process], seconds: float = 60.0) -> bool:
    _, alive = psutil.wait_procs(processes, timeout=seconds)
    return not alive


def is_free(port: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def test_the_agent_learns_frozen_lake_and_its_mind_can_be_watched(tmp_path: Path) -> None:
    run = train(tmp_path / "learn", 10_000, mind_seconds=0.05).succeed()
    received = [value for _, value in run.returns()]
    assert len(received) > 500
    assert np.mean(received[-100:]) >= 0.9
    assert steps_reported(run) == 10_000
    minds = [line for line in run.emitted if line["type"] == "mind"]
    assert len(minds) > 5
    assert any(mind["intentions"] == ["live > explore"] for mind in minds)
    last = minds[-1]
    assert last["goals"] == ["learn"]
    assert last["confidence"] > minds[0]["confidence"]
    beliefs = dict(re.fullmatch(r"(\w+)\((.*)\)", each).groups() for each in last["beliefs"] if "(" in each)  # type: ignore[misc, union-attr]
    assert beliefs.keys() >= {"state", "episode", "mean_return", "confidence", "known_states"}
    assert float(beliefs["mean_return"]) >= 0.9
    [plans] = [line for line in run.emitted if line["type"] == "artifact" and line["kind"] == "plans"]
    assert "+!learn" in (run.folder / plans["path"]).read_text()
    newest = [line for line in run.emitted if line["type"] == "artifact"][-1]
    assert newest["kind"] == "checkpoint"
    assert newest["step"] == 10_000
    assert newest["meta"] == {"algo": "qlearning", "env_id": "FrozenLake-v1", "seed": 1, "return_mean": 1.0}


@pytest.mark.long
def test_a_run_killed_and_resumed_ends_with_the_same_table_bit_for_bit(tmp_path: Path) -> None:
    how = {"kwargs": {"is_slippery": True}, "checkpoint_every": 500}
    whole = train(tmp_path / "whole", 6000, **how)  # type: ignore[arg-type]
    cut = train(tmp_path / "cut", 6000, **how)  # type: ignore[arg-type]
    cut.until(lambda: len(tables(cut)) >= 2)
    relatives = family(cut)
    cut.process.kill()
    cut.wait()
    assert all_gone(relatives)
    resumed = train(tmp_path / "resumed", 6000, resume=tables(cut)[-1], **how).succeed()  # type: ignore[arg-type]
    assert "resumed at step" in resumed.output
    whole.succeed()
    ours, theirs = checkpoint.read(tables(resumed)[-1]), checkpoint.read(tables(whole)[-1])
    assert ours[0]["q"].any()
    for name in ("q", "visits"):
        assert (ours[0][name] == theirs[0][name]).all()
    assert ours[1]["rng"] == theirs[1]["rng"]
    assert ours[1]["beliefs"] == theirs[1]["beliefs"]
    since = checkpoint.read(tables(cut)[-1])[1]["step"]
    assert resumed.returns() == whole.returns(after=since)


def test_two_agents_at_once_listen_on_loopback_alone_and_leave_nothing_behind(tmp_path: Path) -> None:
    polite, rude = (train(tmp_path / name, LONG) for name in ("polite", "rude"))
    for each in (polite, rude):
        each.until(lambda each=each: each.returns())  # type: ignore[misc]
    servers = {each.folder.name: family(each) for each in (polite, rude)}
    ports = {name: listening(processes) for name, processes in servers.items()}
    for found in ports.values():
        assert found
        assert {ip for ip, _ in found} == {"127.0.0.1"}
        assert 9090 not in {port for _, port in found}
    polite.process.send_signal(signal.SIGTERM)
    rude.process.kill()
    assert polite.wait() == 128 + signal.SIGTERM
    assert rude.wait() == -signal.SIGKILL
    assert all_gone([process for processes in servers.values() for process in processes])
    assert all(is_free(port) for found in ports.values() for _, port in found)
    [kept] = [line for line in polite.emitted if line["type"] == "artifact" and line["kind"] == "checkpoint"]
    assert (polite.folder / kept["path"]).exists()
    assert 0 < kept["step"] <= steps_reported(polite)
    assert not (polite.folder / "xmpp").exists()


RESTFUL = """
!go.
+!go : episode(30) <- .wait(600000).
+!go <- .begin; !!live.
+!live : over <- .reflect; !!go.
+!live <- .explore(A); .act(A); !!live.
"""


def test_an_idle_agent_rests_and_fails_with_its_checkpoint_when_the_server_dies(tmp_path: Path) -> None:
    run = train(tmp_path / "lost", 1000, plan_text=RESTFUL, checkpoint_every=900)
    run.until(lambda: len(run.returns()) >= 30)
    process = psutil.Process(run.process.pid)
    before, began = process.cpu_times(), time.monotonic()
    time.sleep(2.0)
    after, seconds = process.cpu_times(), time.monotonic() - began
    # The library's own loop takes a whole core here, or whatever share of one it can get.
    assert (after.user + after.system - before.user - before.system) / seconds < 0.05
    [server] = family(run)
    server.kill()
    assert run.wait() == 1
    assert "lost its XMPP server at step" in run.output
    assert "the embedded XMPP server has ended (SIGKILL)" in run.output
    assert len(tables(run)) == 1


@contextmanager
def somebodys_server(folder: Path, user: str, password: str) -> Iterator[int]:
    command = [sys.executable, "-m", "runspine.trainers.bdi.xmpp_server", str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        process.stdin.write(json.dumps({"user": user, "password": password}).encode() + b"\n")
        process.stdin.flush()
        yield json.loads(process.stdout.readline())["port"]
        process.stdin.close()
        process.wait(10)


def test_an_agent_lives_on_somebody_elses_server_with_the_right_password_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with somebodys_server(tmp_path / "server", "walker", "a long password") as port:
        where = {"xmpp_host": "127.0.0.1", "xmpp_port": port, "xmpp_jid": "walker@127.0.0.1"}
        check_server(where, ["XMPP_PASSWORD"])
        monkeypatch.setenv("XMPP_PASSWORD", "a long password")
        good = train(tmp_path / "good", 300, xmpp_verify=False, **where)  # type: ignore[arg-type]
        monkeypatch.setenv("XMPP_PASSWORD", "another password")
        bad = train(tmp_path / "bad", 300, xmpp_verify=False, **where)  # type: ignore[arg-type]
        good.succeed()
        assert bad.wait() == 1
        assert "walker@127.0.0.1" in bad.output
        assert "another password" not in bad.output
    assert steps_reported(good) == 300


def test_a_launch_that_cannot_work_is_refused_before_it_starts(tmp_path: Path) -> None:
    cart = RunSpec(runner="spade_bdi", algo="qlearning", env="CartPole-v1")
    with pytest.raises(NotReadyError, match="needs discrete observations, and those of CartPole-v1"):
        SpadeBdiRunner().launch(cart, tmp_path, sys.executable)
    with pytest.raises(NotReadyError, match="algo 'ppo' is not one of"):
        SpadeBdiRunner().launch(RunSpec(algo="ppo", env="FrozenLake-v1"), tmp_path, sys.executable)
    plans = tmp_path / "mine.asl"
    plans.write_text("!learn.")
    given = {"plans": Value(text="mine.asl")}
    spec = RunSpec(algo="qlearning", env="Taxi-v4", workdir=str(tmp_path), params=given, total_steps=9)
    launch = SpadeBdiRunner().launch(spec, tmp_path, sys.executable)
    assert json.loads(launch.command[-1]) == {"plans": str(plans)}
    assert launch.variables == {"PYTHONHASHSEED": "0"}
    assert os.path.basename(launch.command[0]).startswith("python")

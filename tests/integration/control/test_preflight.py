"""Validation asks a worker for the very launch, on a real stack with the rights of its NATS users."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspine.errors import InvalidError
from runspine.rpc.trainer_client import Client
from runspine.spec.run_file import parse
from runspine.wire.v1.preflight_pb2 import PREFLIGHT_READY, PREFLIGHT_UNKNOWN
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import ValidateResponse
from tests.kit.cleanrl import STAND_IN
from tests.kit.samples.pendulum import record
from tests.kit.servers.nats import free_port
from tests.kit.stack import Shell
from tests.kit.waiting import until

SECRET = "a-value-that-nobody-may-read"
TRAINED = {"runner": "script", "command": ["true"], "env": "CartPole-v1"}
GOOD = {"runner": "builtin", "algo": "qlearning", "env": "FrozenLake-v1", "total_steps": 300, "seed": 4}
CARTPOLE = {"runner": "builtin", "algo": "ppo", "env": "CartPole-v1", "total_steps": 512}
CLEANRL = {"runner": "cleanrl", "algo": "tiny_critic_continuous", "env": "Pendulum-v1"}
DIGEST = "ab" * 32


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("preflight") / "home"
    shell = Shell(home, RUNSPINE_CLEANRL_DIR=str(STAND_IN), WANDB_API_KEY=SECRET)
    shell("up", "--detach", "--no-page", "--slots", "2")
    yield shell
    shell("down")


@pytest.fixture(scope="module")
def client(shell: Shell) -> Iterator[Client]:
    with shell.client() as client:
        # Envs are listed a moment after the worker is online.
        until(lambda: any(info.envs for worker in client.workers() for info in worker.runners))
        yield client


@pytest.fixture(scope="module")
def trained(client: Client) -> str:
    """A run in CartPole-v1."""
    return client.submit(spec_of(TRAINED)).run.id


@pytest.fixture(scope="module")
def dataset(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("dataset") / "pendulum"
    record(folder, 1)
    digest: str = shell.json("datasets", "add", folder, "--name", "swing")["dataset"]["digest"]
    return digest


def spec_of(fields: dict[str, Any]) -> RunSpec:
    return parse(json.dumps(fields), source="test", folder=Path("/")).specs[0]


def ready(client: Client, spec: RunSpec) -> ValidateResponse:
    """The answer once a worker could give one: on a busy machine a probe may take longer than its wait."""

    def ask() -> ValidateResponse | None:
        answer = client.validate(spec)
        return answer if answer.preflight.state == PREFLIGHT_READY else None

    return until(ask, 60)


def facts(client: Client) -> int:
    return next(each.last_sequence for each in client.describe_log() if each.name == "RUNS")


def worker_pid(shell: Shell) -> int:
    [found] = [part for part in shell.json("status")["parts"] if part["name"].startswith("worker")]
    return int(found["pid"])


def scratch(shell: Shell) -> list[str]:
    """What launch checks have left on the worker's disk."""
    home = Path(shell.environment["RUNSPINE_HOME"])
    return [str(path) for folder in home.rglob("preflight") if folder.is_dir() for path in folder.iterdir()]


def bad_specs(trained: str, dataset: str) -> dict[str, tuple[dict[str, Any], str, str]]:
    """Specs that fail at launch, with the field and a part of the remedy."""
    xmpp = {"xmpp_host": "127.0.0.1", "xmpp_port": free_port(), "xmpp_jid": "learner@example.org"}
    bdi = {"runner": "spade_bdi", "algo": "qlearning", "env": "FrozenLake-v1", "total_steps": 100}
    evaluation = {"digest": DIGEST, "run_id": trained, "name": "x.pt", "episodes": 1}
    return {
        "dqn on a continuous env": (
            {**CARTPOLE, "algo": "dqn", "env": "Pendulum-v1"}, "spec.algo", "use ppo or sac",
        ),
        "continuous actions on CartPole": (
            {**CLEANRL, "env": "CartPole-v1"}, "spec.algo", "or a script such as ppo or dqn",
        ),
        "a dataset of another env": (
            {"runner": "corl", "algo": "bc", "env": "MountainCarContinuous-v0", "total_steps": 10,
             "dataset": {"name": "swing", "digest": dataset}},
            "spec.env", "set env: Pendulum-v1",
        ),
        "CUDA without a GPU": (
            {**CARTPOLE, "params": {"require_cuda": True}}, "spec.params.require_cuda", "set gpus to 1",
        ),
        "a warm start that cannot be": (
            {**CLEANRL, "warm_start": {"run_id": trained}}, "spec.warm_start", "remove it",
        ),
        "more disk than there is": (
            {**TRAINED, "limits": {"disk_mib": 1 << 29}}, "spec.limits.disk_mib", "lower it, or make room",
        ),
        "a secret that the worker lacks": (
            {**TRAINED, "secrets": ["HF_NOT_SET_HERE"]}, "spec.secrets", "set it there, restart the worker",
        ),
        "a secret that the worker does not give": (
            {**TRAINED, "secrets": ["NOBODY_HAS_THIS"]}, "spec.secrets", "RUNSPINE_WORKER_SECRETS",
        ),
        "an env that nobody registered": (
            {**CARTPOLE, "env": "gymnasium:CartPole-v77"}, "spec.env", "CartPole",
        ),
        "packages that are not installed": (
            {"runner": "cleanrl", "algo": "tiny_needs_more", "env": "Breakout-v5"}, "spec.runner",
            "-m pip install no_such_engine",
        ),
        "an upload without a token": (
            {**CLEANRL, "params": {"upload_model": True}}, "spec.secrets", "set HF_TOKEN on the worker",
        ),
        "an evaluation in another env": (
            {"runner": "builtin", "mode": "evaluate", "env": "Pendulum-v1", "evaluation": evaluation},
            "spec.env", "Evaluate it in CartPole-v1",
        ),
        "an XMPP server that is away": (
            {**bdi, "params": xmpp, "secrets": ["XMPP_PASSWORD"]}, "spec.params.xmpp_host",
            "leave xmpp_host empty for an embedded one",
        ),
        "a parameter that is misspelt": (
            {**CARTPOLE, "params": {"gama": 0.9}}, "spec.params.gama", "gamma",
        ),
        "a program that is not there": (
            {**TRAINED, "command": ["no-such-program-anywhere"]}, "spec.command", "give its full path",
        ),
    }  # fmt: skip


@pytest.mark.alone
def test_what_would_fail_at_launch_is_refused_within_two_seconds_and_leaves_nothing_on_the_log(
    shell: Shell, client: Client, trained: str, dataset: str
) -> None:
    before = facts(client)
    for name, (fields, field, remedy) in bad_specs(trained, dataset).items():
        spec = spec_of(fields)
        began = time.monotonic()
        with pytest.raises(InvalidError) as refused:
            client.validate(spec)
        assert time.monotonic() - began < 2.0, name
        found = {each.field: each.message for each in refused.value.violations}
        assert field in found, f"{name}: {found}"
        assert remedy in found[field], f"{name}: {found}"
        with pytest.raises(InvalidError):
            client.submit(spec)
    assert facts(client) == before
    assert scratch(shell) == []


def test_the_command_that_is_shown_is_the_command_that_runs(shell: Shell, client: Client) -> None:
    spec = spec_of(GOOD)
    shown = ready(client, spec).preflight
    answer = client.submit(spec)
    kept = answer.run.preflight
    assert (kept.state, list(kept.command)) == (PREFLIGHT_READY, list(shown.command))
    shell.until(answer.run.id, "completed")
    ran = client.get(answer.run.id)
    assert list(ran.attempts[0].command) == list(shown.command)
    assert shown.directory == "$RUNSPINE_RUN_DIR"
    assert "runspine.trainers.builtin.qlearning" in shown.command
    assert ran.run.preflight == kept
    assert "would start it in $RUNSPINE_RUN_DIR" in shell("show", answer.run.id).stdout
    assert scratch(shell) == []


def test_a_check_shows_no_secret_and_does_not_start_the_program(
    shell: Shell, client: Client, tmp_path: Path
) -> None:
    marker = tmp_path / "started"
    fields = {
        "runner": "script",
        "command": [sys.executable, "-c", f"open({str(marker)!r}, 'w'); '{SECRET}'"],
        "secrets": ["WANDB_API_KEY"],
    }
    path = tmp_path / "run.yaml"
    path.write_text(json.dumps(fields))
    ready(client, spec_of(fields))
    for words in (("validate", path), ("submit", path, "--dry-run")):
        [checked] = shell.json(*words)["runs"]
        assert checked["preflight"]["command"][0] == sys.executable
        assert SECRET not in json.dumps(checked["preflight"])
        assert sys.executable in shell(*words).stderr
    assert not marker.exists()


def test_what_nobody_can_answer_is_unknown_and_the_run_is_accepted(client: Client) -> None:
    spec = spec_of({**GOOD, "pool": "nowhere"})
    found = client.validate(spec).preflight
    assert (found.state, list(found.command)) == (PREFLIGHT_UNKNOWN, [])
    assert "no worker serves pool 'nowhere'" in found.reason
    answer = client.submit(spec)
    assert answer.created
    assert answer.run.preflight.state == PREFLIGHT_UNKNOWN
    assert any("no worker serves pool" in notice for notice in answer.notices)
    client.cancel(answer.run.id)


def test_a_worker_that_is_frozen_delays_a_submit_once_and_refuses_nothing(
    shell: Shell, client: Client
) -> None:
    bad = spec_of({**CARTPOLE, "algo": "dqn", "env": "Pendulum-v1"})
    pid = worker_pid(shell)
    os.kill(pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        answers = [client.submit(bad) for _ in range(10)]
        taken = time.monotonic() - began
        assert {answer.run.preflight.state for answer in answers} == {PREFLIGHT_UNKNOWN}
        assert "did not answer in time" in answers[0].run.preflight.reason
        # Ten waits of two seconds each would be 20 s.
        assert taken < 15
        assert client.validate(bad).preflight.state == PREFLIGHT_UNKNOWN
        for answer in answers:
            client.cancel(answer.run.id)
    finally:
        os.kill(pid, signal.SIGCONT)
    ready(client, spec_of(GOOD))


def test_a_run_under_a_known_key_is_returned_whatever_its_launch_would_do_now(
    client: Client, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    spec = spec_of({"runner": "script", "command": ["true"], "workdir": str(folder)})
    first = client.submit(spec, "the-same-key")
    folder.rmdir()
    # A run that was found ready is known to be so for five seconds.
    until(lambda: not accepted(client, spec), 60)
    again = client.submit(spec, "the-same-key")
    assert (again.run.id, again.created) == (first.run.id, False)


def accepted(client: Client, spec: RunSpec) -> bool:
    try:
        client.validate(spec)
    except InvalidError:
        return False
    return True

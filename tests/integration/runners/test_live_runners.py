"""Every kind of trainer can be watched, and learns exactly the same when it is."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspine.bench.trainers.capture import Twin
from runspine.services.worker.live.frames import parse_header
from runspine.services.worker.runners.builtin import BuiltinRunner
from runspine.services.worker.runners.sb3 import Sb3Runner
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from tests.kit.cleanrl import stand_in
from tests.kit.samples import checkpoint_files as files
from tests.kit.samples.sdk import Listener
from tests.kit.samples.view import Watcher
from tests.kit.training import Trainer, start
from tests.kit.waiting import until

LOOK = {"fps": 30, "width": 320, "slots": None}


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        watcher = Watcher(Path(folder) / "view.sock")
        watcher.greet(look=LOOK)
        yield watcher
        watcher.close()


@contextlib.contextmanager
def ended(trainer: Trainer) -> Iterator[Trainer]:
    try:
        yield trainer
    finally:
        trainer.process.send_signal(signal.SIGTERM)
        try:
            trainer.process.wait(30)
        except subprocess.TimeoutExpired:
            trainer.process.kill()
            trainer.process.wait()


@pytest.mark.parametrize(
    ("runner", "envs"),
    [(BuiltinRunner, "num_envs"), pytest.param(Sb3Runner, "n_envs", marks=pytest.mark.long)],
)
def test_all_envs_of_a_run_are_seen(
    runner: Any, envs: str, watcher: Watcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSPINE_VIEW", str(watcher.path))
    params = {envs: Value(integer=3)}
    spec = RunSpec(env="CartPole-v1", algo="ppo", total_steps=10_000_000, params=params)
    launch = runner().launch(spec, tmp_path, sys.executable)
    with ended(start(tmp_path / "run", launch.command[2:])) as trainer:
        trainer.until(lambda: watcher.drawn == {0, 1, 2}, 90)
    assert {seen.header["width"] for seen in watcher.seen} == {600}


@pytest.mark.parametrize("script", ["tiny_reinforce", "tiny_random_async"])
def test_an_unmodified_script_is_seen_and_so_are_the_processes_of_its_envs(
    script: str, watcher: Watcher, tmp_path: Path
) -> None:
    long = ("--total-timesteps", "5000000")
    with ended(stand_in(tmp_path / "run", script, *long, RUNSPINE_VIEW=str(watcher.path))) as done:
        done.until(lambda: len(watcher.drawn) >= 2 and len(watcher.seen) > 10, 90)
        assert not [seen for seen in watcher.seen if seen.header.get("trouble")]


def test_an_evaluation_is_seen_with_the_batch_that_it_is_in(
    watcher: Watcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSPINE_VIEW", str(watcher.path))
    model = files.saved(tmp_path / "dqn.cleanrl_model", files.QNetwork().state_dict())
    asked = ["--checkpoint", str(model), "--env-id", "CartPole-v1", "--episodes", "2", "--repeat"]
    with ended(start(tmp_path / "run", ["runspine.trainers.evaluation.evaluator", *asked])) as evaluation:
        evaluation.until(lambda: watcher.seen and watcher.seen[-1].header["hud"].get("batch", 0) > 2, 90)
    hud = watcher.seen[-1].header["hud"]
    assert hud["episode_return"] == hud["episode_step"]
    # As the publisher sends it on: the newest whole batch, which is the one before.
    sent = parse_header(watcher.seen[-1].header).hud
    assert (sent.evaluated.number, sent.evaluated.episodes) == (sent.batch - 1, 2)
    assert 0 < sent.evaluated.minimum <= sent.evaluated.mean <= sent.evaluated.maximum


@pytest.mark.parametrize("env_id", ["CartPole-v1", pytest.param("LunarLander-v3", marks=pytest.mark.long)])
def test_a_learner_that_is_watched_has_the_same_weights_bit_by_bit(
    env_id: str, watcher: Watcher, tmp_path: Path
) -> None:
    received = {
        name: Listener(tmp_path, view=path) for name, path in (("alone", ""), ("seen", str(watcher.path)))
    }
    with contextlib.redirect_stdout(io.StringIO()):
        alone, seen = (Twin(tmp_path / name, each.run, env_id=env_id) for name, each in received.items())
    before = seen.weights()
    for _ in range(3):
        alone.iterate()
        seen.iterate()
    until(lambda: watcher.drawn == {0, 1, 2, 3})
    assert received["alone"].run.view.drawn == 0
    assert alone.weights() == seen.weights() != before
    for each in received.values():
        each.lines()

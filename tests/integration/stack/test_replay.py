"""Episodes of runs on a whole stack, played again: exact for every kind of env, and proof where not."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from PIL import Image

from runspine.cli import cli
from runspine.cli.errors import run
from runspine.replay import EpisodeRecord, Replay
from runspine.replay.episode_lookup import earlier_episodes, find_episode
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.trainer_client import Client
from tests.kit.paths import ROOT
from tests.kit.samples.episodes import other_action, tampered
from tests.kit.stack import Shell

TRAINERS = ROOT / "tests" / "kit" / "trainers"
# Four episodes of each, in this order, in slot 0; then a vector env in slots 1 to 3.
ENVS: list[tuple[str, dict[str, Any]]] = [
    ("CartPole-v1", {}),
    ("LunarLander-v3", {}),
    ("Pendulum-v1", {}),
    ("FrozenLake-v1", {"is_slippery": True}),
    ("Taxi-v4", {}),
    ("MiniGrid-Dynamic-Obstacles-6x6-v0", {}),
    ("Hopper-v5", {}),
    ("BipedalWalker-v3", {}),
    ("FrozenLake-v1", {"desc": None, "map_name": None}),
]
EACH = 4
LIE = 7
DIVERGED, NOT_PLAYED, USAGE, NOT_FOUND = 6, 1, 2, 4


class Here(Shell):
    """The same commands in this process: the env packages are imported once."""

    def __call__(self, *arguments: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        out, err = io.StringIO(), io.StringIO()
        with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.setenv("RUNSPINE_HOME", self.environment["RUNSPINE_HOME"])
            got = run(cli, [str(one) for one in arguments])
        assert got == code, f"{arguments}: {got}\n{out.getvalue()}\n{err.getvalue()}"
        return subprocess.CompletedProcess(arguments, got, out.getvalue(), err.getvalue())  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("replay") / "home"
    elsewhere = Shell(home)
    elsewhere("up", "--detach", "--no-page", "--slots", "3")
    yield Here(home)
    elsewhere("down")


@pytest.fixture(scope="module")
def runs(shell: Shell) -> dict[str, str]:
    """Runs that have completed, by what they are: the trainers train at the same time."""
    trainer, forger = str(TRAINERS / "episodes.py"), str(TRAINERS / "wrong_action.py")
    found = {
        "sdk": shell.submit("--", sys.executable, trainer, json.dumps(ENVS)),
        "by hand": shell.submit("--", sys.executable, forger, str(LIE)),
        "builtin": shell.submit(str(ROOT / "examples" / "q_frozenlake.yaml"), "--set", "total_steps=3000"),
    }
    for run_id in found.values():
        shell.until(run_id, "completed", 150)
    return found


@pytest.fixture(scope="module")
def client(shell: Shell) -> Iterator[Client]:
    with Client(find_endpoint(shell.environment)) as client:
        yield client


@pytest.mark.timeout(300)
@pytest.mark.parametrize("number", range(len(ENVS)), ids=[env_id for env_id, _ in ENVS])
def test_episodes_in_the_middle_of_a_run_are_bit_exact_and_a_wrong_action_is_found_at_its_step(
    client: Client, runs: dict[str, str], number: int
) -> None:
    dice = np.random.default_rng(number)
    tampering = 0
    for index in (number * EACH + 1, (number + 1) * EACH - 1):
        record = find_episode(client, runs["sdk"], str(index))
        assert record.env.env_id == ENVS[number][0]
        assert not record.missing
        assert "none" not in record.kinds
        replay = Replay(record)
        assert replay.verdict.exact, replay.verdict.divergence
        assert replay.verdict.steps == record.length > 0
        for step in dice.choice(record.length, min(2, record.length), replace=False).tolist():
            action = other_action(replay, step)
            if action is not None:
                wrong = Replay(EpisodeRecord(tampered(record.response, step, action))).verdict
                assert wrong.divergence is not None
                assert wrong.divergence.step == wrong.steps == step
                tampering += 1
    assert tampering


def test_episodes_of_the_slots_of_a_vector_env_are_exact(client: Client, runs: dict[str, str]) -> None:
    for name in ("1-1", "2-2", "3-1"):
        record = find_episode(client, runs["sdk"], name)
        assert (record.slot, record.env.env_id) == (int(name[0]), "CartPole-v1")
        assert record.start.seed is None
        assert Replay(record).verdict.exact
        assert earlier_episodes(client, runs["sdk"], record) == []


def test_a_built_in_algorithms_episodes_are_exact(shell: Shell, runs: dict[str, str]) -> None:
    listed = shell.json("episodes", runs["builtin"], "--sort", "length", "--desc", "--limit", "3")
    assert listed["total"] > 20
    lengths = [entry["episode"]["steps"] for entry in listed["episodes"]]
    assert lengths == sorted(lengths, reverse=True)
    for which in (str(listed["episodes"][0]["index"]), "last", "worst"):
        received = shell.json("replay", runs["builtin"], which)
        assert (received["outcome"], received["episode"]["env_id"]) == ("exact", "FrozenLake-v1")
        assert received["verified_steps"] == received["episode"]["steps"] > 0


def test_the_best_and_the_worst_episode_are_those_of_the_list(shell: Shell, runs: dict[str, str]) -> None:
    everything = shell.json("episodes", runs["sdk"], "--limit", "1000")
    assert everything["total"] == len(everything["episodes"]) > len(ENVS) * EACH
    assert [entry["index"] for entry in everything["episodes"]] == list(range(everything["total"]))
    returns = [entry["episode"]["return"] for entry in everything["episodes"]]
    for which, index in (("best", np.argmax(returns)), ("worst", np.argmin(returns))):
        received = shell.json("replay", runs["sdk"], which)
        assert received["episode"]["index"] == index
        assert received["outcome"] == "exact"
    shown = shell("episodes", runs["sdk"], "--sort", "return", "--desc", "--limit", "5").stdout
    assert "returns " in shown
    assert len(shown.splitlines()) == 8


def test_a_film_and_a_frame_of_an_episode_are_written(
    shell: Shell, runs: dict[str, str], tmp_path: Path
) -> None:
    film, frame = tmp_path / "clip.mp4", tmp_path / "frame.png"
    received = shell.json("replay", runs["sdk"], "5", "--out", str(film), "--size", "300x200", "--fps", "24")
    with av.open(str(film)) as opened:
        decoded = [picture.to_ndarray(format="rgb24") for picture in opened.decode(video=0)]
        assert opened.streams.video[0].average_rate == 24
    assert len(decoded) == received["out"]["frames"] == received["episode"]["steps"] + 1
    assert {picture.shape for picture in decoded} == {(200, 300, 3)}
    assert all(picture.max() > 100 for picture in decoded)
    received = shell.json("replay", runs["sdk"], "5", "--step", "3", "--out", str(frame))
    assert received["step"]["verified"] is True
    assert len(received["step"]["observation"]) == 8
    with Image.open(frame) as picture:
        assert "every step as recorded" in picture.text["Title"]  # type: ignore[attr-defined]


def test_a_record_that_is_not_true_is_never_shown_as_the_original(
    shell: Shell, runs: dict[str, str], tmp_path: Path
) -> None:
    assert shell.json("replay", runs["by hand"], "by hand 0")["outcome"] == "exact"
    frame = tmp_path / "frame.png"
    done = shell("replay", runs["by hand"], "1", "--out", str(frame), code=DIVERGED)
    assert f"DIVERGED at step {LIE}" in done.stdout
    assert "numpy 0.0.1 when recorded" in done.stdout
    with Image.open(frame) as picture:
        assert "NOT THE ORIGINAL" in picture.text["Title"]  # type: ignore[attr-defined]
    received = shell.json("replay", runs["by hand"], "1", code=DIVERGED)
    assert (received["outcome"], received["divergence"]["step"]) == ("diverged", LIE)
    assert received["divergence"]["field"] == "observation"
    assert [each["package"] for each in received["changed_packages"]] == ["numpy"]


def test_what_is_on_record_serves_where_the_env_is_not_to_be_had(
    shell: Shell, runs: dict[str, str], tmp_path: Path
) -> None:
    plot = tmp_path / "plot.png"
    words = ("replay", runs["by hand"], "of another world", "--step", "2", "--out", str(plot))
    received = shell.json(*words, code=NOT_PLAYED)
    assert received["outcome"] == "stored"
    assert "gone_envs" in received["reason"]
    assert received["step"]["action"] == {"left": 2}
    assert received["step"]["observation"] == [1.0, -2 / 3]
    assert plot.stat().st_size > 1000
    assert shell.json("replay", runs["sdk"], "5", "--stored")["outcome"] == "stored"


@pytest.mark.parametrize(
    ("words", "code", "emitted"),
    [
        (("99999",), NOT_FOUND, "none at 99999"),
        (("no such episode",), NOT_FOUND, "no such episode"),
        (("0", "--step", "99999"), USAGE, "steps"),
        (("0", "--out", "clip.avi"), USAGE, ".mp4"),
        (("0", "--step", "1", "--out", "clip.mp4"), USAGE, ".png"),
        (("0", "--size", "huge"), USAGE, "640x480"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_with_its_remedy(
    shell: Shell, runs: dict[str, str], words: tuple[str, ...], code: int, emitted: str
) -> None:
    assert emitted in shell("replay", runs["sdk"], *words, code=code).stderr


def test_an_episode_that_still_runs_can_be_replayed_as_far_as_it_is(
    client: Client, runs: dict[str, str]
) -> None:
    """The vector env was closed in mid-episode: those episodes have no end and no index."""
    records = [find_episode(client, runs["sdk"], name) for name in last_names(client, runs["sdk"])]
    for record in records:
        assert not record.flags[-1]
        assert Replay(record).verdict.exact


@cache
def last_names(client: Client, run_id: str) -> list[str]:
    """The first episode of each vector slot that no end is known of."""
    from runspine.rpc.telemetry_client import TelemetryClient

    ended = {entry.episode.episode_id for entry in TelemetryClient(client).episodes(run_id)}
    return [next(f"{s}-{n}" for n in range(1000) if f"{s}-{n}" not in ended) for s in (1, 2, 3)]

"""Checkpoints of any origin evaluated as runs: their figures are those of the episodes on record."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch

from runspine.cli import cli
from runspine.cli.errors import REFUSED, run
from runspine.cli.ui.evaluation_progress import scores_of
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.wire.v1 import artifacts_pb2 as artifacts
from runspine.wire.v1.facts_pb2 import CheckpointImported
from tests.kit.samples import checkpoint_files as files
from tests.kit.samples.wandb_files import read_wandb
from tests.kit.servers.wandb import wandb_server
from tests.kit.sinks import scalars
from tests.kit.stack import Shell
from tests.kit.waiting import until

pytestmark = pytest.mark.long

CARTPOLE = "CartPole-v1"
PPO = "runner: builtin\nalgo: ppo\nenv: CartPole-v1\nseed: 11\ntotal_steps: 512\n"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("evaluation") / "home")
    shell("up", "--detach", "--no-page", "--slots", "3")
    yield shell
    shell("down")


@pytest.fixture(scope="module")
def trained(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A run of the builtin PPO, at its end."""
    path = tmp_path_factory.mktemp("spec") / "ppo.yaml"
    path.write_text(PPO)
    run_id: str = shell.json("submit", path)["runs"][0]["run"]["id"]
    until(lambda: shell.json("show", run_id)["run"]["phase"] == "completed", 120)
    return run_id


def recorded(shell: Shell, run_id: str) -> list[float]:
    """Returns as telemetry has them, episode by episode."""
    with shell.client() as client:
        return [getattr(entry.episode, "return") for entry in TelemetryClient(client).episodes(run_id)]


def check_figures(scores: list[dict[str, Any]], returns: list[float], size: int) -> None:
    """Each batch against numpy's own figures of the recorded returns."""
    for number, score in enumerate(scores):
        part = np.array(returns[number * size : (number + 1) * size])
        assert score["batch"] == number
        assert score["returns"] == part.tolist()
        assert [score[name] for name in ("mean", "minimum", "maximum", "median", "std")] == pytest.approx(
            [part.mean(), part.min(), part.max(), np.median(part), part.std()], rel=1e-12
        )
        assert score["seconds"] > 0
        assert sum(score["lengths"]) == pytest.approx(part.sum())  # in this env each step is worth 1


def test_a_builtin_ppo_is_evaluated_filmed_and_its_figures_are_those_of_the_record(
    shell: Shell, trained: str, tmp_path: Path
) -> None:
    scores, last = shell.evaluate(trained, "--episodes", 6, "--batches", 2, "--video", "--frames", 20)
    done = last["run"]
    assert (done["phase"], done["spec"]["mode"], done["spec"]["seed"]) == ("completed", "evaluate", 11)
    assert done["spec"]["evaluation"]["run_id"] == trained
    assert len(scores) == 2
    returns = recorded(shell, done["id"])
    check_figures(scores, returns, 6)
    overall = last["overall"]
    assert (overall["mean"], overall["std"]) == pytest.approx((np.mean(returns), np.std(returns)))
    assert overall["interval_95"][0] <= overall["mean"] <= overall["interval_95"][1]
    summary = shell.json("show", done["id"])["attempts"][0]["exited"]["progress"]["evaluation"]
    assert (summary["episodes"], summary["batches"]) == (12, 2)
    assert (summary["mean"], summary["std"]) == pytest.approx((np.mean(returns), np.std(returns)))
    card = until(lambda: _card(shell, done["spec"]["evaluation"]["digest"], "evaluation"))
    assert card.score.mean == pytest.approx(np.mean(returns))
    _check_series(shell, done["id"], scores, tmp_path)
    _check_video(shell, done["id"], returns, tmp_path)


def _card(shell: Shell, digest: str, source: str) -> Any:
    with shell.client() as client:
        request = artifacts.GetArtifactRequest(reference=digest)
        card = client.call_artifacts("Get", request, artifacts.GetArtifactResponse).card
    return card if card.score.source == source else None


def _check_series(shell: Shell, run_id: str, scores: list[dict[str, Any]], tmp_path: Path) -> None:
    """Batch by batch as series of the run, and as scalars in a folder of their own."""
    expected = {
        "eval/mean": [score["mean"] for score in scores],
        "eval/std": [score["std"] for score in scores],
        "eval/min": [score["minimum"] for score in scores],
        "eval/max": [score["maximum"] for score in scores],
        "eval/median": [score["median"] for score in scores],
        "eval/duration": [score["seconds"] for score in scores],
    }
    series = {one["name"]: one for one in shell.json("metrics", run_id, "eval/")["series"]}
    assert {name: one["y"] for name, one in series.items()} == expected
    assert series["eval/mean"]["x"] == [1, 2]
    shell("export", run_id, "--to", "tensorboard", "--out", tmp_path / "tb")
    [folder] = (tmp_path / "tb").iterdir()
    batches = scalars(folder / "tensorboard_eval")
    assert {tag: [v for t, _, v in batches if t == tag] for tag in expected} == {
        tag: pytest.approx(values) for tag, values in expected.items()
    }
    assert {step for _, step, _ in batches} == {1, 2}
    [episodes] = folder.glob("events.out.tfevents.*")
    assert "episode/return" in {tag for tag, *_ in scalars(episodes)}
    assert not {tag for tag, *_ in scalars(episodes)} & set(expected)


@pytest.mark.long
def test_an_evaluation_is_exported_to_wandb_with_its_clips_and_its_run_states_where(
    shell: Shell, trained: str, tmp_path: Path
) -> None:
    _, last = shell.evaluate(trained, "--episodes", 3, "--batches", 2, "--video", "--frames", 20)
    _check_wandb(shell, last["run"]["id"], tmp_path)
    _check_wandb_online(shell, last["run"]["id"], tmp_path)


def _check_wandb(shell: Shell, run_id: str, tmp_path: Path) -> None:
    """The stored clips are media of the offline run, byte by byte, and the run states that it is offline."""
    done = shell.json("export", run_id, "--to", "wandb", "--out", tmp_path / "wb")["exports"][0]
    stored = shell.json("artifacts", "list", run_id, "--kind", "video")["artifacts"]
    rows = [item for item in read_wandb(tmp_path / "wb") if item[0].startswith("media/videos/")]
    assert sorted(digest for *_, digest in rows) == sorted(video["digest"] for video in stored)
    assert "media/videos/best" in {name for name, *_ in rows}
    assert done["videos"] == len(stored) > 0
    assert shell.json("show", run_id)["run"]["labels"]["wandb"] == "offline"
    assert "exported offline, not sent" in shell("show", run_id).stdout


def _check_wandb_online(shell: Shell, run_id: str, tmp_path: Path) -> None:
    """The address at W&B is the run's label; numbers and clips arrive, and the key stays where it was."""
    key = "0123456789abcdef0123456789abcdef01234567"
    with wandb_server() as server:
        variables = {"WANDB_API_KEY": key, "WANDB_BASE_URL": server.url, "NO_PROXY": "127.0.0.1"}
        exporter = Shell(Path(shell.environment["RUNSPINE_HOME"]), **variables)
        words = ("--to", "wandb", "--online", "--out", tmp_path / "online")
        done = exporter.json("export", run_id, *words)["exports"][0]
        url = f"{server.url}/lab/runspine/runs/{run_id.lower()}"
        stored = shell.json("artifacts", "list", run_id, "--kind", "video")["artifacts"]
        sent = {hashlib.sha256(data).hexdigest() for name, data in server.files.items() if "videos" in name}
        assert sent == {video["digest"] for video in stored}
        assert [row["eval/mean"] for row in server.history if "eval/mean" in row]
    shown = shell.json("show", run_id)
    assert done["where"] == shown["run"]["labels"]["wandb"] == url
    assert f"W&B: {url}" in shell("show", run_id).stdout
    left = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in left if key.encode() in path.read_bytes()]


def _check_video(shell: Shell, run_id: str, returns: list[float], tmp_path: Path) -> None:
    """The best and the worst episode; a pruned one comes back from the record, frame for frame."""

    def verified() -> Any:
        listed = shell.json("artifacts", "list", run_id, "--kind", "video")["artifacts"]
        return listed if any("best" in video["name"] for video in listed) and all(
            video["integrity"] == "good" for video in listed
        ) else None  # fmt: skip

    videos = {video["meta"]["which"]: video for video in until(verified)}
    assert videos["best"]["meta"]["return"] == max(returns)
    best = videos["best"]
    episode = int(best["meta"]["episode_id"].partition("-")[2])
    assert returns[episode] == max(returns)
    assert best["meta"]["frames"] == min(20, int(max(returns)) + 1)
    shell("prune", best["digest"], "--yes")
    assert "pruned" in shell("artifacts", "get", best["digest"], "--out", tmp_path / "no.mp4", code=5).stderr
    received = shell.json("video", best["digest"], "--out", tmp_path / "again.mp4")
    assert received["same_frames"] is True
    assert received["same_file"] is True, "the same frames give the same file"


def sb3_model(folder: Path) -> tuple[Any, Path]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the library
        from stable_baselines3 import PPO as Sb3Ppo

        model = Sb3Ppo("MlpPolicy", CARTPOLE, seed=2, n_steps=64)
        model.learn(256)
        path = folder / "best_model.zip"
        model.save(path)
    return model, path


def played(act: Any, seed: int, count: int) -> list[float]:
    """Returns of a policy, without a line of ours in between."""
    env, returns = gym.make(CARTPOLE), []
    for number in range(count):
        observation, _ = env.reset(seed=seed + number)
        total, done = 0.0, False
        while not done:
            observation, reward, terminated, truncated, _ = env.step(act(observation))
            total, done = total + float(reward), terminated or truncated
        returns.append(total)
    return returns


@pytest.mark.long
def test_an_sb3_file_is_imported_and_evaluated_as_the_library_itself_would_play(
    shell: Shell, tmp_path: Path
) -> None:
    model, path = sb3_model(tmp_path)
    scores, last = shell.evaluate(path, "--env", CARTPOLE, "--seed", 40, "--episodes", 5)
    expected = played(lambda seen: int(model.predict(seen, deterministic=True)[0]), 40, 5)
    check_figures(scores, expected, 5)
    assert recorded(shell, last["run"]["id"]) == expected
    assert last["run"]["spec"]["algo"] == "ppo"


@pytest.mark.long
def test_an_imported_cleanrl_model_is_described_by_its_folder_and_is_compared(
    shell: Shell, tmp_path: Path
) -> None:
    torch.manual_seed(4)
    network = files.QNetwork()
    folder = tmp_path / "runs" / f"{CARTPOLE}__dqn__31__1700000000"
    files.saved(folder / "dqn.cleanrl_model", network.state_dict())
    (imported,) = shell.json("import", folder)["imported"]
    assert (imported["env"], imported["algo"], imported["runner"], imported["seed"]) == (
        *(CARTPOLE, "dqn", "cleanrl"),
        31,
    )
    digest = imported["artifact"]["digest"]
    scores, _ = shell.evaluate(digest[:10], "--episodes", 5)

    def best(seen: Any) -> int:
        with torch.no_grad():
            return int(network.network(torch.from_numpy(seen)).argmax())

    check_figures(scores, played(best, 31, 5), 5)
    (board,) = [b for b in shell.json("leaderboard", "--env", CARTPOLE)["boards"] if b["env"] == CARTPOLE]
    places = board["places"]
    assert [place["mean"] for place in places] == sorted((p["mean"] for p in places), reverse=True)
    (mine,) = [place for place in places if place["digest"] == digest]
    assert mine["mean"] == pytest.approx(scores[0]["mean"])
    assert mine["interval_95"][0] <= mine["mean"] <= mine["interval_95"][1]


def test_an_evaluation_repeats_until_cancelled_and_every_batch_is_kept(shell: Shell, trained: str) -> None:
    words = ("eval", f"{trained}:best", "--repeat", "--episodes", "3", "--stochastic", "--json")
    with shell.start(*words) as process:
        assert process.stdout
        for _ in range(4):
            assert '"score"' in process.stdout.readline()
        (only,) = shell.json("ls", "--state", "running")["runs"]
        run_id = only["run"]["id"]
        shell("cancel", run_id)
        rest = process.stdout.read().splitlines()
        assert process.wait(60) == 0
    with shell.client() as client:
        scores = list(scores_of(client, run_id))
    assert len(scores) == 4 + len(rest) - 1
    assert [score.batch for score in scores] == list(range(len(scores)))
    returns = recorded(shell, run_id)
    received = [value for score in scores for value in score.returns]
    assert received == returns[: len(received)]
    assert not any(score.deterministic for score in scores)
    assert shell.json("show", run_id)["run"]["phase"] == "cancelled"


def test_what_cannot_be_evaluated_is_refused_with_the_reason(
    shell: Shell, trained: str, tmp_path: Path
) -> None:
    emitted = shell.refused("eval", trained, "--env", "Acrobot-v1", "--episodes", 2)
    assert "spec.env: Acrobot-v1 does not fit the checkpoint, which was trained in CartPole-v1" in emitted
    assert "Evaluate it in CartPole-v1" in emitted
    assert "no checkpoint" in shell("eval", "0" * 20, code=4).stderr
    assert "no checkpoint at step-7" in shell("eval", f"{trained}:step-7", code=4).stderr
    bare = files.saved(tmp_path / "model.pt", files.QNetwork().state_dict())
    assert "give it with --env" in shell("eval", bare, code=2).stderr
    assert "omit --batches" in shell("eval", trained, "--repeat", "--batches", "2", code=2).stderr


def test_hostile_files_are_refused_by_the_command_and_by_the_service(
    shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RUNSPINE_HOME", shell.environment["RUNSPINE_HOME"])
    mark = tmp_path / "somebody-ran-me"
    hostile = [
        files.pickle_bomb(tmp_path / "a.pt", mark),
        files.torch_bomb(tmp_path / "b.cleanrl_model", mark),
        files.zip_with_name(tmp_path / "c.zip", "../../x"),
        files.zip_with_name(tmp_path / "d.zip", "/etc/x"),
        files.zip_with_link(tmp_path / "e.zip", "/etc/passwd"),
        files.zip_of(tmp_path / "f.zip", {"a/data.pkl": bytes(64 << 20)}),
    ]
    (tmp_path / "g.pt").touch()
    whole = files.saved(tmp_path / "whole.pt", files.QNetwork().state_dict()).read_bytes()
    (tmp_path / "h.pt").write_bytes(whole[: len(whole) // 2])
    reasons = ["posix.system"] * 2 + [
        "leads outside",
        "absolute path",
        "a link",
        "a zip bomb",
        "0 bytes",
        "truncated",
    ]
    before = shell.json("checkpoints", "list")
    for path, reason in zip([*hostile, tmp_path / "g.pt", tmp_path / "h.pt"], reasons, strict=True):
        assert run(cli, ["import", str(path), "--env", CARTPOLE]) == REFUSED
        assert reason in capsys.readouterr().err
        with (
            shell.client() as client,
            pytest.raises(Exception, match=reason if path.name != "g.pt" else "empty"),
        ):
            client.send_artifact(_sent(path))
    assert shell.json("checkpoints", "list") == before
    assert not mark.exists()
    assert not (tmp_path.parent / "x").exists()


def test_an_import_waits_for_a_service_that_was_just_killed(shell: Shell, tmp_path: Path) -> None:
    record = Path(shell.environment["RUNSPINE_HOME"]) / "stack.json"
    path = files.saved(tmp_path / "model.pt", files.QNetwork().state_dict())
    os.kill(json.loads(record.read_text())["pids"]["artifacts"], signal.SIGKILL)
    shell("import", path, "--env", CARTPOLE, "--algo", "dqn")


def _sent(path: Path) -> Iterator[artifacts.ImportRequest]:
    """As a client would send it that looks at nothing."""
    about = CheckpointImported(name=path.name, env=CARTPOLE, algo="dqn", source="elsewhere")
    yield artifacts.ImportRequest(about=about)
    if data := path.read_bytes():
        yield artifacts.ImportRequest(data=data[: 1 << 20])

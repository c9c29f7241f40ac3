"""Exports of real runs of a real stack, read by the tools they are for."""

from __future__ import annotations

import csv
import json
import signal
import socket
import threading
import urllib.request
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from tests.kit.samples.sinks import datasets_in
from tests.kit.samples.wandb_files import wandb_rows
from tests.kit.servers.wandb import wandb_server
from tests.kit.sinks import (
    ENV,
    Runs,
    Shell,
    accumulated,
    as_float32,
    committed,
    data_of,
    only_folder,
    points_in,
    rows,
    scalars,
)


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("stack") / "home")
    shell.apart("up", "--detach", "--no-page", "--slots", "1")
    yield shell
    shell.apart("down")


@pytest.fixture(scope="module")
def runs(shell: Shell) -> Runs:
    whole = shell.submit()
    hashed = shell.submit("--episodes", "5", seed=2, capture="hash")
    empty = shell.submit("--episodes", "0", seed=3)
    return Runs(*map(shell.completed, (whole, hashed, empty)))


@pytest.fixture(scope="module")
def run(runs: Runs) -> str:
    return runs.whole


@pytest.fixture(scope="module")
def measured(shell: Shell, run: str, tmp_path_factory: pytest.TempPathFactory) -> Counter[Any]:
    """Every point of the run, as the service reports it through another interface than the sinks'."""
    path = tmp_path_factory.mktemp("measured") / "points.csv"
    shell("metrics", run, "charts/", "losses/", "odd", "episode/", "--export", str(path))
    return as_float32(rows(path, "name", "step", "value"))


def test_a_relative_folder_is_below_the_one_in_which_the_command_runs(
    shell: Shell, run: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for target in ("tensorboard", "csv", "parquet"):
        shell("export", run, "--to", target, "--out", f"out/{target}")
        assert any(path.is_file() for path in (tmp_path / "out" / target).rglob("*"))
        # The same folder by its full path has everything already.
        again = shell("export", run, "--to", target, "--out", str(tmp_path / "out" / target))
        assert "already up to date" in again.stdout + again.stderr
        record = json.loads((tmp_path / "out" / target / f"{run}.run.json").read_text())
        assert record["run"]["id"] == run
        assert record["run"]["spec"]["runner"]


def test_tensorboards_own_reader_finds_the_same_numbers(
    shell: Shell, run: str, measured: Counter[Any], tmp_path: Path
) -> None:
    shell("export", run, "--to", "tensorboard", "--out", str(tmp_path))
    found = scalars(only_folder(tmp_path))
    assert as_float32(found) == measured, "every point once, rounded to float32 and no further"
    assert {"charts/episodic_return", "losses/größe", "odd", "episode/return"} <= {tag for tag, *_ in found}
    accumulator = accumulated(only_folder(tmp_path))
    [event] = accumulator.Tensors("hyperparameters/text_summary")
    table = event.tensor_proto.string_val[0].decode()
    assert "|gamma|0.99|" in table
    assert f"|env|{ENV}|" in table
    times = [event.wall_time for event in accumulator.Scalars("charts/episodic_return")]
    received = shell.json("metrics", run, "charts/episodic_return", "--x", "time", "--points", "1000")
    exact = [time_of(text) for text in received["series"][0]["x"]]
    assert times == pytest.approx(exact, abs=2e-6), "the trainer's wall times, not ours"


def time_of(text: str) -> float:
    from datetime import datetime

    return datetime.fromisoformat(text).timestamp()


def test_an_export_that_is_asked_for_again_has_nothing_to_do(shell: Shell, run: str, tmp_path: Path) -> None:
    arguments = ("export", run, "--to", "csv", "--steps", "--out", str(tmp_path))
    first = shell.json(*arguments)["exports"][0]
    before = {path.name: path.read_bytes() for path in only_folder(tmp_path).glob("*.csv")}
    again = shell.json(*arguments)["exports"][0]
    assert first["done"]
    assert first["steps"] > 300
    assert again["nothing_new"]
    assert {path.name: path.read_bytes() for path in only_folder(tmp_path).glob("*.csv")} == before
    assert before["steps.csv"].count(b"\n") == first["steps"] + 1


class Listener:
    """Counts who knocks."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.knocks = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.knocks += 1
            connection.close()

    def close(self) -> None:
        self._socket.close()


def test_the_wandb_run_is_made_without_network(
    shell: Shell, run: str, measured: Counter[Any], tmp_path: Path
) -> None:
    server, proxy = Listener(), Listener()
    variables = {"WANDB_BASE_URL": server.address, "HTTPS_PROXY": proxy.address, "HTTP_PROXY": proxy.address}
    key = "0123456789abcdef0123456789abcdef01234567"
    shell.apart(
        "export", run, "--to", "wandb", "--out", str(tmp_path), WANDB_API_KEY=key, NO_PROXY="", **variables
    )
    assert (server.knocks, proxy.knocks) == (0, 0)
    assert shell.json("show", run)["run"]["labels"]["wandb"] == "offline"
    found = [
        (name, row["global_step"], float(value))
        for row in wandb_rows(tmp_path)
        for name, value in row.items()
        if name != "global_step" and not name.startswith("_")
    ]
    assert as_float32(found) == measured
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or key.encode() not in path.read_bytes(), path
    for listener in (server, proxy):
        listener.close()


def test_an_online_export_labels_its_run_with_the_address_and_sends_every_point(
    shell: Shell, run: str, measured: Counter[Any], tmp_path: Path
) -> None:
    with wandb_server() as server:
        variables = {"WANDB_API_KEY": "0123456789" * 4, "WANDB_BASE_URL": server.url, "NO_PROXY": "127.0.0.1"}
        shell.apart("export", run, "--to", "wandb", "--out", str(tmp_path), "--online", **variables)
    found = [
        (name, row["global_step"], float(value))
        for row in server.history
        for name, value in row.items()
        if name != "global_step" and not name.startswith("_")
    ]
    assert as_float32(found) == measured
    url = f"{server.url}/lab/runspine/runs/{run.lower()}"
    assert shell.json("show", run)["run"]["labels"]["wandb"] == url
    assert f"W&B: {url}" in shell("show", run).stdout
    shell.apart("export", run, "--to", "wandb", "--out", str(tmp_path / "offline"))
    assert shell.json("show", run)["run"]["labels"]["wandb"] == url, "an offline export keeps the address"


def test_minari_loads_the_dataset_and_finds_every_episode(shell: Shell, run: str, tmp_path: Path) -> None:
    import minari

    shell("export", run, "--to", "minari", "--out", str(tmp_path), "--dataset-id", "dice/cartpole-v0")
    received = sorted(rows_of_episodes(shell, run, tmp_path / "csv"))
    with datasets_in(tmp_path):
        dataset = minari.load_dataset("dice/cartpole-v0")
        found = [(len(e.rewards), float(e.rewards.sum()), bool(e.terminations[-1])) for e in dataset]
        assert sorted(found) == received
        assert dataset.total_episodes == 30
        assert played_again(dataset, 1), "the observations are those the env gives for these actions"


def rows_of_episodes(shell: Shell, run: str, out: Path) -> list[tuple[int, float, bool]]:
    shell("export", run, "--to", "csv", "--out", str(out))
    with (only_folder(out) / "episodes.csv").open() as file:
        return [(int(r["steps"]), float(r["return"]), r["terminated"] == "1") for r in csv.DictReader(file)]


def played_again(dataset: Any, seed: int) -> bool:
    """Play all actions in a fresh env with the run's seed; first observations included."""
    env = dataset.recover_environment()
    observation, _ = env.reset(seed=seed)
    for episode in dataset:
        seen = [observation]
        for action in episode.actions:
            observation, *_ = env.step(int(action))
            seen.append(observation)
        if not np.array_equal(np.stack(seen), episode.observations):
            return False
        observation, _ = env.reset()
    return True


def test_observations_that_were_not_kept_are_had_again_by_replay(
    shell: Shell, runs: Runs, tmp_path: Path
) -> None:
    import minari

    arguments = ("export", runs.hashed, "--to", "minari", "--out", str(tmp_path), "--dataset-id", "dice/c-v0")
    assert "--resimulate" in shell(*arguments, code=5).stderr
    shell(*arguments, "--resimulate")
    with datasets_in(tmp_path):
        dataset = minari.load_dataset("dice/c-v0")
        assert dataset.total_episodes == 5
        assert played_again(dataset, 2)


@pytest.mark.slow
def test_follows_begun_before_the_run_and_killed_on_the_way_end_with_every_point_once(
    shell: Shell, tmp_path: Path
) -> None:
    blocker = shell.submit("--episodes", "10000", "--pause", "0.3")
    run_id = shell.submit("--episodes", "40", "--pause", "0.15", seed=7)
    assert shell.phase(run_id) in ("submitted", "queued")
    targets = ("tensorboard", "csv")

    def arguments(target: str) -> tuple[str, ...]:
        return ("export", run_id, "--to", target, "--out", str(tmp_path / target), "--follow", "--json")

    with ExitStack() as stack:
        for target in targets:
            follower = stack.enter_context(shell.started(*arguments(target)))
            if target == targets[0]:
                # It has begun to ask; now the run may begin.
                shell.until(psutil.Process(follower.pid).net_connections)
                shell("cancel", blocker)
            shell.until(lambda target=target: committed(tmp_path / target, target) > 0)  # type: ignore[misc]
            follower.send_signal(signal.SIGKILL)
            # Something that was written and not committed: it must not count.
            with data_of(tmp_path / target).open("ab") as file:
                file.write(b"torn")
        again = [stack.enter_context(shell.started(*arguments(target))) for target in targets]
        for process in again:
            out, _ = process.communicate(timeout=280)
            assert process.returncode == 0
            assert json.loads(out)["exports"][0]["done"]
    for target in targets:
        later = tmp_path / f"{target}-later"
        shell("export", run_id, "--to", target, "--out", str(later))
        found = points_in(only_folder(tmp_path / target), target)
        assert found == points_in(only_folder(later), target)
        assert found.total() == 40 * (5 if target == "tensorboard" else 3)


@pytest.mark.slow
def test_what_a_failed_attempt_did_is_taken_back_while_it_is_followed(shell: Shell, tmp_path: Path) -> None:
    """The second attempt starts over: of the first, nothing may be left in any output."""
    run_id = shell.submit("--episodes", "20", "--pause", "0.1", "--fail-after", "15", seed=11, attempts=2)
    targets = ("tensorboard", "csv", "parquet")
    with ExitStack() as stack:
        outs = {target: str(tmp_path / target) for target in targets}
        followers = [
            stack.enter_context(shell.started("export", run_id, "--to", target, "--out", out, "--follow"))
            for target, out in outs.items()
        ]
        assert [follower.wait(280) for follower in followers] == [0, 0, 0]
    shell.completed(run_id)
    assert shell.json("show", run_id)["run"]["attempt"] == 2
    shell("export", run_id, "--to", "csv", "--out", str(tmp_path / "later"))
    expected = points_in(only_folder(tmp_path / "later"), "csv")
    assert expected.total() == 20 * 3
    for target in targets:
        found = points_in(only_folder(tmp_path / target), target)
        assert (
            Counter({point: n for point, n in found.items() if not point[0].startswith("episode/")})
            == expected
        )


@pytest.mark.slow
def test_tensorboard_shows_the_runs_on_loopback_and_leaves_nothing(
    shell: Shell, run: str, tmp_path: Path
) -> None:
    name = shell.json("show", run)["run"]["name"]
    with shell.started("tensorboard", run, "--out", str(tmp_path), "--json") as viewer:
        assert viewer.stdout is not None
        url = json.loads(viewer.stdout.readline())["url"]
        assert url.startswith("http://127.0.0.1:")

        def shown() -> bool:
            with urllib.request.urlopen(f"{url}data/plugin/scalars/tags", timeout=30) as answer:
                return "charts/episodic_return" in json.load(answer).get(name, {})

        shell.until(shown)
        children = psutil.Process(viewer.pid).children(recursive=True)
        assert children
        viewer.send_signal(signal.SIGINT)
        assert viewer.wait(60) == 0
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive


def test_series_are_listed_drawn_and_found_by_a_beginning(shell: Shell, run: str, tmp_path: Path) -> None:
    listed = shell("metrics", run).stdout
    assert "losses/größe" in listed
    assert "▁" in listed
    drawn = shell("metrics", run, "episode/ret", "--plot", "--x", "episode").stdout
    assert "30 episodes" in drawn
    missing = shell("metrics", run, "episode/retrun", code=4)
    assert "Did you mean 'episode/return'?" in missing.stderr
    shell("metrics", run, "odd", "--export", str(tmp_path / "x.doc"), code=2)


def test_runs_are_compared_over_their_seeds(shell: Shell, runs: Runs, tmp_path: Path) -> None:
    both = (runs.whole, runs.hashed)
    # Their commands differ in the number of episodes, so they are one group only when asked.
    assert len(shell.json("compare", *both)["groups"]) == 2
    [group] = shell.json("compare", *both, "--threshold", "5", "--by", "algo")["groups"]
    assert [seed["run_id"] for seed in group["seeds"]] == list(both)
    for seed in group["seeds"]:
        assert final_of(shell, seed["run_id"], group["end"]) == pytest.approx(seed["final"])
    received = shell("compare", *both, "--by", "algo")
    assert "--whole draws on" in received.stderr, "the shorter run is named"
    for ending in ("png", "svg"):
        files = ("--out", str(tmp_path / f"figure.{ending}"), "--export", str(tmp_path / "curves.parquet"))
        shell("compare", *both, "--by", "seed", *files)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "seed=2 (n = 1)" in (tmp_path / "figure.svg").read_text()


def test_a_comparison_names_the_run_that_lacks_what_was_asked_for(shell: Shell, runs: Runs) -> None:
    wrong = shell("compare", runs.whole, runs.hashed, "--metric", "losses/grösse", code=2)
    assert runs.whole in wrong.stderr
    assert "Did you mean 'losses/größe'?" in wrong.stderr
    assert "no episode has ended" in shell("compare", runs.whole, runs.empty, code=2).stderr
    found = shell("compare", "--group", f"env={ENV}")
    assert f"skipped: run {ENV}__dice__3" in found.stderr, "one that was not named is left out"
    assert "no run matches" in shell("compare", "--group", "algo=nothing", code=2).stderr
    assert "label.group" not in shell("compare", runs.whole, "--by", "sed", code=2).stderr


def final_of(shell: Shell, run_id: str, end: float) -> float:
    """The mean return in the last tenth of the budget, worked out once more."""
    received = shell.json("metrics", run_id, "episode/return", "--points", "1000")["series"][0]
    pairs = [(x, y) for x, y in zip(received["x"], received["y"], strict=True) if x <= end]
    last = [y for x, y in pairs if x > 0.9 * end] or [pairs[-1][1]]
    return float(np.mean(last))

"""Offline learning through a real stack: datasets registered, recorded, learnt from, refused, fine-tuned."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from minio import Minio

from runspine.cli.errors import FAILED, NOT_FOUND, REFUSED, USAGE
from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home
from tests.kit.samples.offline_lab import OfflineLab
from tests.kit.samples.pendulum import EXPERT, RANDOM, record

# Three trainings at once on a busy machine take their time.
pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]
# Of the way from a random policy to an expert. Random is 0; measured were about 90 to 100.
CLEARLY = 50.0


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OfflineLab]:
    lab = OfflineLab(tmp_path_factory.mktemp("corl") / "home")
    lab("up", "--detach", "--no-page", "--slots", "3")
    yield lab
    lab("down")


@pytest.fixture(scope="module")
def trained(lab: OfflineLab, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A policy: what a written controller does, registered and cloned."""
    folder = tmp_path_factory.mktemp("data") / "controller"
    record(folder, 20)
    emitted = lab.json(
        *("datasets", "add", folder, "--name", "controller"),
        *("--random-return", RANDOM, "--expert-return", EXPERT),
    )
    assert emitted["created"]
    assert emitted["dataset"]["integrity"] == "good"
    run_id = lab.submit_spec(lab.spec("bc", "controller", 500))
    assert lab.end(run_id)["phase"] == "completed"
    return run_id


@pytest.fixture(scope="module")
def made(lab: OfflineLab, trained: str) -> str:
    """A dataset recorded from that policy."""
    lab("datasets", "make", "made", "--policy", trained, "--steps", 2000, "--reference-episodes", 4)
    return "made"


def test_a_recorded_dataset_states_its_provenance(lab: OfflineLab, trained: str, made: str) -> None:
    found = lab.json("datasets", "show", made)["dataset"]
    assert found["steps"] == 2000
    assert found["provenance"]["policy"] == "corl/bc"
    checkpoint = found["provenance"]["checkpoint"]
    attempts = lab.json("show", trained)["attempts"]
    assert checkpoint in {each["digest"] for each in attempts[-1]["artifacts"]}
    assert lab.json("show", found["provenance"]["run"])["run"]["spec"]["algo"] == "record"
    assert found["returns"]["random"] < -800 < found["returns"]["expert"]
    assert lab.json("datasets", "verify", made) == {"dataset": made, "whole": True, "flaw": ""}
    assert {each["name"] for each in lab.json("datasets", "ls")["datasets"]} >= {"controller", made}


def test_every_algorithm_beats_the_random_policy_clearly_and_reports_by_how_much(
    lab: OfflineLab, made: str
) -> None:
    runs = {algo: lab.submit_spec(lab.spec(algo, made, 500)) for algo in ("bc", "td3_bc", "iql")}
    for algo, run_id in runs.items():
        assert lab.end(run_id)["phase"] == "completed", algo
        scores = lab.series(run_id, "charts/normalized_score")
        assert [step for step, _ in scores] == [250, 500]
        assert scores[-1][1] > CLEARLY, (algo, scores)
        assert f"{algo} " in (emitted := lab("logs", run_id).stdout)
        assert "random policy" in emitted
        assert " against random" in emitted
        assert f"normalised {scores[-1][1]:.1f}" in emitted


def test_fine_tuning_goes_on_where_its_checkpoint_ended(lab: OfflineLab, made: str) -> None:
    before = lab.submit_spec(lab.spec("td3_bc", made, 300, params={"eval_every": 150}))
    assert lab.end(before)["phase"] == "completed"
    spec = lab.spec("td3_bc", made, 250, params={"online": True, "eval_every": 125})
    after = lab.submit_spec({**spec, "warm_start": {"run_id": before}})
    run = lab.end(after)
    assert run["phase"] == "completed", run
    # One chart: the second curve begins where the first ends, and as well as the first had become.
    first, second = (lab.series(each, "charts/episodic_return") for each in (before, after))
    assert first[-1][0] == 300
    assert [step for step, _ in second] == [300, 425, 550]
    assert second[0][1] == pytest.approx(first[-1][1])
    # It acted in the env, and all of that is on record.
    assert run["counts"]["steps"] == 250
    assert lab.json("show", after)["attempts"][-1]["resumed_from"]["run_id"] == before


def test_a_checkpoint_is_evaluated_like_any_other(lab: OfflineLab, trained: str) -> None:
    scores, _ = lab.evaluate(trained, "--episodes", 3)
    assert scores[0]["mean"] > (RANDOM + EXPERT) / 2


def test_what_does_not_fit_is_refused_before_anything_starts(lab: OfflineLab, made: str) -> None:
    assert "Did you mean 'made'" in lab.submit_spec(lab.spec("bc", "mad", 10), code=USAGE)
    nothing = {"runner": "corl", "algo": "bc", "env": "Pendulum-v1", "total_steps": 10}
    emitted = lab.submit_spec(nothing, code=USAGE)
    assert '"spec.dataset"' in emitted
    assert "is missing: bc learns from a registered one" in emitted
    other = lab.submit_spec(lab.spec("bc", made, 10, env="CartPole-v1"), code=USAGE)
    assert "is of Pendulum-v1, and the run's env is CartPole-v1" in other
    stranger = {**lab.spec("bc", made, 10), "runner": "builtin", "algo": "ppo", "params": {}}
    assert "does not learn from a dataset" in lab.submit_spec(stranger, code=USAGE)


def test_one_byte_changed_on_the_worker_is_noticed_and_fetched_again(lab: OfflineLab, made: str) -> None:
    digest = lab.json("datasets", "show", made)["dataset"]["digest"]
    victim = lab.cache / digest / "data" / "main_data.hdf5"
    victim.chmod(0o644)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    run_id = lab.submit_spec(lab.spec("bc", made, 20))
    assert lab.end(run_id)["phase"] == "completed"
    assert "this host's copy was damaged (data/main_data.hdf5" in lab("logs", run_id).stdout


def test_one_byte_changed_in_s3_is_refused_and_the_file_named(lab: OfflineLab, tmp_path: Path) -> None:
    record(tmp_path / "doomed", 1)
    digest = lab.json("datasets", "add", tmp_path / "doomed", "--name", "doomed")["dataset"]["digest"]
    _flip(lab.home, f"artifacts/sha256/{digest[:2]}/{digest}")
    run = lab.end(lab.submit_spec(lab.spec("bc", "doomed", 20)))
    assert run["phase"] == "failed"
    assert "dataset doomed has been changed in S3: data/main_data.hdf5 differs" in run["reason"]
    assert not (lab.cache / digest).exists()
    assert not lab.json("datasets", "verify", "doomed", code=FAILED)["whole"]


def _flip(home: Path, key: str) -> None:
    """One bit of the data in the archive, stored under the old name."""
    known = load_credentials(Home.at(home))
    port = json.loads((home / "ports.json").read_text())["s3"]
    store = Minio(f"127.0.0.1:{port}", known.s3_access_key, known.s3_secret_key, secure=False)
    with store.get_object("runspine", key) as answer:
        data = bytearray(answer.read())
    data[data.index(b"\x89HDF") + 20_000] ^= 1
    store.put_object("runspine", key, io.BytesIO(bytes(data)), len(data))


def test_a_local_copy_that_was_changed_is_named_too(lab: OfflineLab, tmp_path: Path) -> None:
    record(tmp_path / "mine", 1)
    (tmp_path / "mine" / "manifest.json").write_text('{"format": 1}')
    emitted = lab("datasets", "add", tmp_path / "mine", "--name", "x", code=REFUSED).stderr
    assert "manifest.json: files is None, not list" in emitted
    assert "does not exist" in lab("datasets", "add", tmp_path / "nowhere", "--name", "x", code=USAGE).stderr


def test_a_removed_dataset_is_gone_and_can_be_had_back(lab: OfflineLab, tmp_path: Path) -> None:
    record(tmp_path / "short", 1, random=True)
    lab("datasets", "add", tmp_path / "short", "--name", "short")
    batch = lab.json("datasets", "rm", "short")["batch"]
    assert "short" in lab("datasets", "show", "short", code=NOT_FOUND).stderr
    lab("prune", "--undo", batch)
    assert lab.json("datasets", "show", "short")["dataset"]["aliases"] == ["short"]


def test_a_script_of_a_corl_checkout_runs_as_it_is(lab: OfflineLab, made: str) -> None:
    run_id = lab.submit_spec(lab.spec("corl-tiny_bc", made, 100, params={"batch_size": 32}))
    run = lab.end(run_id)
    assert run["phase"] == "completed", run["reason"]
    assert len(lab.series(run_id, "loss")) == 100
    assert [step for step, _ in lab.series(run_id, "d4rl_normalized_score")] == [50, 100]
    assert run["counts"]["episodes"] == 2
    names = {each["name"] for each in lab.json("show", run_id)["attempts"][-1]["artifacts"]}
    assert {"checkpoints/50.pt", "checkpoints/100.pt"} <= names
    wrong = lab.spec("corl-tiny_bc", made, 100, params={"batch_sise": 32})
    assert "Did you mean 'batch_size'" in lab.submit_spec(wrong, code=USAGE)

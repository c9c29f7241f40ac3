"""Offline learning as a user does it: a dataset by name, a policy, fine-tuning by prefix, one chart."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspine.cli.errors import REFUSED, USAGE
from tests.kit.samples.offline_lab import OfflineLab
from tests.kit.samples.pendulum import EXPERT, RANDOM, record
from tests.kit.waiting import until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]
TINY = {"eval_every": 20, "eval_episodes": 1, "batch_size": 32}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OfflineLab]:
    lab = OfflineLab(tmp_path_factory.mktemp("offline") / "home")
    lab("up", "--detach", "--no-page", "--slots", "2")
    yield lab
    lab("down")


@pytest.fixture(scope="module")
def digest(lab: OfflineLab, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The dataset that is registered as `swing`."""
    folder = tmp_path_factory.mktemp("data") / "swing"
    record(folder, 3)
    added = lab.json(
        *("datasets", "add", folder, "--name", "swing"),
        *("--random-return", RANDOM, "--expert-return", EXPERT),
    )
    return str(added["dataset"]["digest"])


@pytest.fixture(scope="module")
def offline(lab: OfflineLab, digest: str) -> str:
    """A run that has learned from it."""
    run_id = lab.submit_spec(lab.spec("td3_bc", "swing", 40, params=TINY))
    run = lab.end(run_id)
    assert run["phase"] == "completed", run
    stored = run["spec"]["dataset"]
    assert (stored["name"], stored["digest"], stored["size"] > 0) == ("swing", digest, True)
    assert run["spec"]["env"] == "Pendulum-v1"
    return run_id


def test_from_a_named_dataset_to_a_fine_tuned_policy_on_one_chart(
    lab: OfflineLab, digest: str, offline: str, tmp_path: Path
) -> None:
    # Refused by the service: a name that is not there, and an env that is another one.
    assert "Did you mean 'swing'" in lab.submit_spec(lab.spec("td3_bc", "swin", 40), code=USAGE)
    wrong = lab.spec("td3_bc", "swing", 40, env="MountainCarContinuous-v0")
    assert "set env: Pendulum-v1" in lab.submit_spec(wrong, code=USAGE)

    cards = lab.json("checkpoints", "list", "--dataset", "swing")["checkpoints"]
    assert {card["artifact"]["run_id"] for card in cards} == {offline}
    assert cards[0]["artifact"]["meta"]["offline_dataset"] == {"name": "swing", "digest": digest}
    assert lab.json("checkpoints", "list", "--dataset", digest[:8])["total"] == len(cards)
    assert lab.json("checkpoints", "list", "--dataset", "other")["total"] == 0

    # As many characters of the id as are needed to find it.
    tuning = lab.spec("td3_bc", "swing", 30, params={**TINY, "online": True, "eval_every": 15})
    tuned = lab.submit_spec({**tuning, "warm_start": {"run_id": offline[:20]}})
    assert lab.end(tuned)["phase"] == "completed"
    shown = lab("show", tuned).stdout
    assert f"run {offline} ({offline[:20]}), its newest checkpoint" in shown
    assert f"started warm from step 40 of attempt 1 of run {offline} ({offline[:20]})" in shown

    chart = tmp_path / "chart.svg"
    found = lab.json("compare", offline, tuned, "--out", chart)
    assert found["metric"] == "charts/episodic_return"
    assert [group["label"] for group in found["groups"]] == ["offline", "fine-tuned"]
    assert [line["label"] for line in found["references"]] == ["random", "data", "expert"]
    assert found["references"][2]["value"] == EXPERT
    assert "fine-tuning" in found["advice"]
    assert chart.stat().st_size > 1000
    first, second = (group["curve"]["x"] for group in found["groups"])
    assert first[0] == 20
    assert second[-1] == 70
    assert "advice: " in (drawn := lab("compare", offline, tuned)).stderr
    assert "expert -151" in drawn.stdout


def test_the_cache_of_a_worker_is_listed_and_pruned_and_a_removed_name_comes_back(
    lab: OfflineLab, digest: str, offline: str
) -> None:
    def cached() -> dict[str, Any]:
        [worker] = lab.json("datasets", "cache", "ls")["workers"]
        return dict(worker) if worker["datasets"] else {}

    worker = until(cached, 60)
    [held] = worker["datasets"]
    assert held["digest"] == digest
    assert held["name"] == "swing"
    os.utime(lab.cache / held["digest"], (1, 1))  # it was used in the last minute
    removed = lab.json("datasets", "cache", "prune", "swing", "--worker", worker["worker"])
    assert removed == {"removed": [{"worker": worker["worker"], "digest": held["digest"]}], "left": []}
    assert not (lab.cache / held["digest"]).exists()
    assert lab.json("datasets", "cache", "ls")["workers"][0]["datasets"] == []
    assert "worker_id" in lab("datasets", "cache", "prune", "--all", "--worker", "nobody", code=USAGE).stderr

    batch = lab.json("datasets", "rm", "swing")["batch"]
    refused = lab.submit_spec(lab.spec("td3_bc", "swing", 40), code=USAGE)
    assert "no dataset is registered yet" in refused
    lab("prune", "--undo", batch)
    assert lab.json("datasets", "show", "swing")["dataset"]["aliases"] == ["swing"]


def test_a_dataset_of_minari_is_added_by_its_id(
    lab: OfflineLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(tmp_path / "tests" / "pendulum-v0", 1)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    added = lab.json("datasets", "add", "minari:tests/pendulum-v0", "--name", "by-id")["dataset"]
    assert (added["env"], added["aliases"]) == ("Pendulum-v1", ["by-id"])
    assert (
        "no id of a Minari dataset" in lab("datasets", "add", "minari:x", "--name", "y", code=REFUSED).stderr
    )

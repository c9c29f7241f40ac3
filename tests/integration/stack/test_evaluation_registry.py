"""An evaluation of any kind of checkpoint leaves `latest` and `best` in the registry as they were."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from runspine.domain.artifact_kinds import LOADABLE
from runspine.errors import RunNotFoundError
from runspine.rpc.artifact_client import ArtifactClient
from runspine.wire.v1.artifacts_pb2 import ListArtifactsRequest
from tests.kit.samples import checkpoint_files as files
from tests.kit.samples.pendulum import EXPERT, RANDOM, record
from tests.kit.stack import Shell
from tests.kit.waiting import until

# Five trainings and six evaluations, most of which import torch.
pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

# As CleanRL's dqn.py saves its model, without learning anything.
DQN = """
import os
from dataclasses import dataclass

import torch
import tyro
from torch import nn

@dataclass
class Args:
    exp_name: str = "dqn"
    seed: int = 1
    env_id: str = "CartPole-v1"
    total_timesteps: int = 100

class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        layers = [nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 8), nn.ReLU(), nn.Linear(8, 2)]
        self.network = nn.Sequential(*layers)

if __name__ == "__main__":
    args = tyro.cli(Args)
    path = f"runs/{args.env_id}__{args.exp_name}__{args.seed}__1700000000/{args.exp_name}.cleanrl_model"
    os.makedirs(os.path.dirname(path))
    torch.save(QNetwork().state_dict(), path)
"""
ONCE = {"checkpoint_every": 1_000_000}
TRAININGS: dict[str, dict[str, Any]] = {
    "builtin": {"algo": "ppo", "env": "CartPole-v1", "total_steps": 512, "params": ONCE},
    "sb3": {
        "algo": "ppo",
        "env": "CartPole-v1",
        "total_steps": 200,
        "params": {"n_steps": 100, "batch_size": 50, **ONCE},
    },
    "cleanrl": {
        "algo": "dqn",
        "env": "CartPole-v1",
        "total_steps": 100,
    },
    "corl": {"algo": "bc", "dataset": {"name": "controller"}, "total_steps": 100, "params": ONCE},
    "spade_bdi": {
        "algo": "qlearning",
        "env": "FrozenLake-v1",
        "env_kwargs": {"is_slippery": False},
        "total_steps": 300,
        "params": ONCE,
    },
}


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    folder = tmp_path_factory.mktemp("registry")
    for name in ("cleanrl", "cleanrl_utils"):
        (folder / "checkout" / name).mkdir(parents=True)
    (folder / "checkout" / "cleanrl" / "dqn.py").write_text(DQN)
    shell = Shell(folder / "home", RUNSPINE_CLEANRL_DIR=str(folder / "checkout"))
    shell("up", "--detach", "--no-page", "--slots", "2")
    yield shell
    shell("down")


@pytest.fixture(scope="module")
def checkpoints(shell: Shell, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """For each kind, the run or the import that has a checkpoint."""
    folder = tmp_path_factory.mktemp("made")
    record(folder / "controller", 2)
    shell(
        *("datasets", "add", folder / "controller", "--name", "controller"),
        *("--random-return", RANDOM, "--expert-return", EXPERT),
    )
    found = {}
    for runner, fields in TRAININGS.items():
        path = folder / f"{runner}.yaml"
        path.write_text(json.dumps({"runner": runner, **fields}))
        found[runner] = shell.submit(path)
    for run_id in found.values():
        shell.until(run_id, "completed", 300)
    model = folder / "CartPole-v1__dqn__31__1700000000" / "dqn.cleanrl_model"
    (imported,) = shell.json("import", files.saved(model, files.QNetwork().state_dict()).parent)["imported"]
    return {**found, "imported": imported["artifact"]["run_id"]}


def policies(shell: Shell) -> dict[str, dict[str, str]]:
    """What a policy can be loaded from, of each run: digest by name."""
    with shell.client() as client:
        listed = ArtifactClient(client).list(ListArtifactsRequest(kinds=sorted(LOADABLE)))
    found: dict[str, dict[str, str]] = {}
    for artifact in listed:
        found.setdefault(artifact.run_id, {})[artifact.name] = artifact.digest
    return found


def names(shell: Shell, owner: str) -> dict[str, str]:
    """What `latest` and `best` stand for, once it is verified and has a score."""

    def resolved() -> dict[str, str] | None:
        with shell.client() as client:
            artifacts = ArtifactClient(client)
            try:
                answers = {name: artifacts.get(f"{owner}:{name}") for name in ("latest", "best")}
            except RunNotFoundError:
                return None
        if any(answer.obstacle for answer in answers.values()):
            return None
        return {name: answer.artifact.digest for name, answer in answers.items()}

    return until(resolved)


def verified(shell: Shell, owner: str) -> bool:
    with shell.client() as client:
        try:
            return not ArtifactClient(client).get(f"{owner}:latest").obstacle
        except RunNotFoundError:
            return False


def evaluate(shell: Shell, owner: str) -> dict[str, Any]:
    """Evaluate the newest checkpoint of a run or an import; the run of the evaluation."""
    scores, last = shell.evaluate(f"{owner}:latest", "--episodes", 2)
    assert len(scores) == 1
    ended: dict[str, Any] = last["run"]
    assert ended["phase"] == "completed"
    return ended


def test_no_evaluation_changes_what_latest_and_best_stand_for(
    shell: Shell, checkpoints: dict[str, str]
) -> None:
    stored = policies(shell)
    assert set(checkpoints.values()) <= set(stored)
    for kind, owner in checkpoints.items():
        until(partial(verified, shell, owner))
        done = evaluate(shell, owner)
        digest = done["spec"]["evaluation"]["digest"]
        folder = Path(shell.json("show", done["id"])["attempts"][0]["directory"])
        # Each has one checkpoint: both names stand for it, before and after.
        assert [path.name[:64] for path in (folder / "resume").iterdir()] == [digest], kind
        assert names(shell, owner) == {"latest": digest, "best": digest}, kind
        assert done["id"] not in policies(shell), kind
    assert policies(shell) == stored, "no evaluation stored what it had fetched"

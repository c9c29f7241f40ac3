"""Folders and files next to a checkpoint complete the metadata that the file lacks."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from runspine.checkpoints import CheckpointError
from runspine.checkpoints.candidates import candidates, inspect_with_surroundings
from runspine.checkpoints.surroundings import read_surroundings
from tests.kit.samples import checkpoint_files as files


@pytest.mark.parametrize(
    ("place", "env", "algo", "seed"),
    [
        ("runs/CartPole-v1__dqn__1__1700000000/dqn.cleanrl_model", "CartPole-v1", "dqn", 1),
        ("runs/ALE/Pong-v5__dqn_atari__3__1700000000/x.cleanrl_model", "Pong-v5", "dqn_atari", 3),
        ("CartPole-v1__ppo__7__1700000000.pt", "CartPole-v1", "ppo", 7),
        ("runs/CartPole-v1__dqn__1__1700000000/checkpoints/x.pt", "CartPole-v1", "dqn", 1),
        ("logs/sac/Pendulum-v1_2/best_model.zip", "Pendulum-v1", "sac", None),
        ("LunarLander-v3.zip", "LunarLander-v3", "", None),
        ("somewhere/weights.pt", "", "", None),
    ],
)
def test_env_algorithm_and_seed_are_read_from_names_of_files_and_folders(
    tmp_path: Path, place: str, env: str, algo: str, seed: int | None
) -> None:
    assert read_surroundings(tmp_path / place)[:3] == (env, algo, seed)


def test_a_file_of_arguments_next_to_a_checkpoint_takes_precedence_over_names(tmp_path: Path) -> None:
    path = files.saved(tmp_path / "CartPole-v1__dqn__1__1700000000" / "m.pt", files.QNetwork().state_dict())
    (path.parent / "args.json").write_text(json.dumps({"env_id": "Acrobot-v1", "seed": 5}))
    assert read_surroundings(path)[:3] == ("Acrobot-v1", "dqn", 5)
    (path.parent / "args.json").write_text("[" * 100_000)
    assert read_surroundings(path).env == "CartPole-v1"


def test_the_contents_of_a_checkpoint_take_precedence_over_its_surroundings(tmp_path: Path) -> None:
    args = {"env_id": "MountainCar-v0", "seed": 2}
    weights = files.Distributional().state_dict()
    folder = tmp_path / "CartPole-v1__c51__1__1700000000"
    about = inspect_with_surroundings(
        files.saved(folder / "c51.cleanrl_model", {"model_weights": weights, "args": args})
    )
    assert (about.env, about.seed) == ("MountainCar-v0", 2)


def test_a_folder_and_a_zip_of_it_hold_the_same_checkpoints(tmp_path: Path) -> None:
    root = tmp_path / "given"
    run = root / "runs" / "CartPole-v1__dqn__4__1700000000"
    files.saved(run / "dqn.cleanrl_model", files.QNetwork().state_dict())
    (run / "events.out.tfevents").write_bytes(b"x")
    (run / "empty.pt").touch()
    shutil.make_archive(str(tmp_path / "packed"), "zip", root)
    received = []
    for path in (root, tmp_path / "packed.zip"):
        with candidates(path) as found:
            received.append(
                [
                    (each.name, each.about and (each.about.env, each.about.seed), each.problem)
                    for each in found
                ]
            )
            kept = [each.path for each in found]
    assert received[0] == received[1]
    assert received[0] == [
        ("runs/CartPole-v1__dqn__4__1700000000/dqn.cleanrl_model", ("CartPole-v1", 4), ""),
        ("runs/CartPole-v1__dqn__4__1700000000/empty.pt", None, "empty.pt is empty: 0 bytes"),
    ]
    assert not any(path.exists() for path in kept), "what was unpacked is removed again"


def test_the_error_of_a_folder_without_a_checkpoint_names_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(CheckpointError, match=r"\.cleanrl_model, \.safetensors"), candidates(tmp_path):
        pass

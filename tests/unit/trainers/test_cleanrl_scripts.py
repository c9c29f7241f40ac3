"""A checkout's scripts, read without running them."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspine.instrument.checkout import CleanrlCheckout, CleanrlCheckoutError
from runspine.instrument.readiness import python_of, readiness
from runspine.runners import NotReadyError
from runspine.services.worker.runners.cleanrl import arguments_for, option
from runspine.services.worker.runners.cleanrl_scripts import packages_of, read_script
from runspine.services.worker.telemetry.assembly.episodes import EpisodeTracker
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import Episode

SCRIPT = """# docs can be found at https://docs.example.org/tiny
import os
import gym_of_mine, sibling_script
from torch.utils.tensorboard import SummaryWriter
from cleanrl_utils.buffers import ReplayBuffer
from dataclasses import dataclass
from . import nothing

raise SystemExit("this script must never be run")

@dataclass
class Args:
    seed: int = 1
    env_id: str = "Here-v1"
    sizes: list = None

def later():
    import only_when_called

assert True, "only continuous action space is supported"
"""


def checkout_at(folder: Path, **scripts: str) -> CleanrlCheckout:
    (folder / "cleanrl").mkdir()
    (folder / "cleanrl_utils").mkdir()
    for name, source in scripts.items():
        (folder / "cleanrl" / f"{name}.py").write_text(source)
    return CleanrlCheckout.find({"RUNSPINE_CLEANRL_DIR": str(folder)})


def test_the_requirements_and_parameters_of_a_script_are_read_from_its_source(tmp_path: Path) -> None:
    checkout = checkout_at(tmp_path, tiny=SCRIPT, sibling_script="")
    script = read_script(checkout.scripts()["tiny"])
    assert script.packages == ("gym_of_mine", "torch", "tensorboard")
    assert script.actions == "Box"
    assert script.docs == "https://docs.example.org/tiny"
    assert not script.old_api
    assert [param.name for param in script.info().params] == ["sizes"]


def test_a_changed_script_is_read_again(tmp_path: Path) -> None:
    path = checkout_at(tmp_path, tiny=SCRIPT).scripts()["tiny"]
    assert not read_script(path).old_api
    path.write_text(SCRIPT + '\nx = infos["final_info"]\n')
    assert read_script(path).old_api


def test_a_folder_with_a_script_of_its_name_counts_as_one(tmp_path: Path) -> None:
    checkout = checkout_at(tmp_path, ppo="", __init__="")
    (tmp_path / "cleanrl" / "big").mkdir()
    for name in ("big", "enjoy"):
        (tmp_path / "cleanrl" / "big" / f"{name}.py").write_text("")
    assert list(checkout.scripts()) == ["big", "ppo"]


def test_the_commit_of_a_checkout_is_read_from_its_files(tmp_path: Path) -> None:
    checkout = checkout_at(tmp_path)
    assert checkout.commit == ""
    (tmp_path / ".git" / "refs" / "heads").mkdir(parents=True)
    (tmp_path / ".git" / "HEAD").write_text("ref: refs/heads/master\n")
    (tmp_path / ".git" / "refs" / "heads" / "master").write_text("fe8d8a0\n")
    assert checkout.commit == "fe8d8a0"


def test_a_file_is_no_checkout(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CleanrlCheckoutError, match="is no folder: git clone"):
        CleanrlCheckout.find({"RUNSPINE_CLEANRL_DIR": str(tmp_path / "file")})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (True, ["--a-b"]),
        (False, ["--no-a-b"]),
        (1e-5, ["--a-b", "1e-05"]),
        (2, ["--a-b", "2"]),
        (None, ["--a-b", "None"]),
        ("", ["--a-b", ""]),
        ("--x; rm -rf ü", ["--a-b", "--x; rm -rf ü"]),
        ([64, 64], ["--a-b", "64", "64"]),
        ({"k": 1}, ["--a-b", "k", "1"]),
    ],
)
def test_values_become_words_of_the_command_line(value: object, words: list[str]) -> None:
    assert option("a_b", value) == words


def test_a_field_that_the_script_does_not_take_is_refused(tmp_path: Path) -> None:
    script = read_script(checkout_at(tmp_path, tiny=SCRIPT).scripts()["tiny"])
    with pytest.raises(NotReadyError, match="total_steps: tiny has no argument total_timesteps"):
        arguments_for(script, RunSpec(total_steps=5))
    assert arguments_for(script, RunSpec(seed=3)) == ["--seed", "3"]


def test_a_script_that_resizes_pictures_needs_opencv(tmp_path: Path) -> None:
    source = SCRIPT + "\nenv = gym.wrappers.ResizeObservation(env, (84, 84))\n"
    assert "cv2" in read_script(checkout_at(tmp_path, tiny=source).scripts()["tiny"]).packages


def test_only_imports_at_the_top_count(tmp_path: Path) -> None:
    assert packages_of("if x:\n    import later\nimport jax.numpy as jnp", tmp_path) == ("jax",)


def test_a_scripts_own_evaluation_is_counted_but_is_not_what_training_has_reached() -> None:
    episodes = EpisodeTracker()
    for number, value in ((1, 10.0), (2, 20.0)):
        episodes.add_line(Episode(episode_id=f"0-{number}", steps=5, **{"return": value}), at=0)  # type: ignore[arg-type]
    episodes.add_line(Episode(episode_id="eval-1-0", steps=5, **{"return": 900.0}), at=0)  # type: ignore[arg-type]
    assert episodes.count == 3
    assert episodes.last_return == 20.0
    assert episodes.mean_return == 15.0
    assert len(episodes.take(at=0, final=True)) == 3


def test_the_doctor_reports_what_is_missing(tmp_path: Path) -> None:
    assert readiness({}).level == "note"
    assert "git clone" in readiness({}).do
    wrong = readiness({"RUNSPINE_CLEANRL_DIR": str(tmp_path)})
    assert wrong.level == "warn"
    assert "has no folder cleanrl" in wrong.text
    checkout_at(tmp_path, ppo="")
    here = {"RUNSPINE_CLEANRL_DIR": str(tmp_path)}
    assert readiness(here).level == "ok"
    assert "1 scripts" in readiness(here).text
    lost = readiness({**here, "RUNSPINE_RUNNER_PYTHON_CLEANRL": "/no/such/python"})
    assert lost.level == "warn"
    assert "/no/such/python cannot be run" in lost.text
    assert python_of({"RUNSPINE_RUNNER_PYTHON": '{"cleanrl": "/x/python"}'}) == "/x/python"

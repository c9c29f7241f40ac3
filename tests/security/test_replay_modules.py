"""Looking does not act: a record that is replayed has env packages imported, and nothing else."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from runspine.replay.allowed_modules import VARIABLE, is_allowed, refused_module
from runspine.replay.env_factory import EnvMissingError, close_env, make_recorded_env
from runspine.wire.v1.telemetry_pb2 import EnvMade

# Leaves a trace when it is imported; registers an env as a package of envs would.
HOSTILE = """
import pathlib
import gymnasium
pathlib.Path(__file__).with_name("imported").touch()
class Wrapper(gymnasium.Wrapper):
    pass
gymnasium.register("Hostile-v0", entry_point="gymnasium.envs.classic_control.cartpole:CartPoleEnv")
"""


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A module that can be imported here, though nobody meant it to be."""
    (tmp_path / "hostile_envs.py").write_text(HOSTILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "hostile_envs", raising=False)
    return tmp_path / "imported"


def wrapped(*entry_points: str, kwargs: dict[str, object] | None = None) -> EnvMade:
    wrappers = [{"entry_point": each, "kwargs": kwargs or {}} for each in entry_points]
    return EnvMade(env_id="CartPole-v1", wrappers_json=json.dumps(wrappers))


@pytest.mark.parametrize(
    "env",
    [
        EnvMade(env_id="Hostile-v0", entry_point="hostile_envs:Env"),
        EnvMade(env_id="hostile_envs:Hostile-v0"),
        wrapped("hostile_envs:Wrapper"),
        wrapped("gymnasium.wrappers:TimeLimit", "hostile_envs:Wrapper"),
    ],
)
def test_a_module_that_a_record_names_is_not_imported(hostile: Path, env: EnvMade) -> None:
    with pytest.raises(EnvMissingError, match=VARIABLE):
        make_recorded_env(env, {})
    assert not hostile.exists()


def test_the_setting_adds_a_package_of_envs(hostile: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "another, hostile_envs")
    close_env(make_recorded_env(EnvMade(env_id="Hostile-v0", entry_point="hostile_envs:Env"), {}))
    assert hostile.exists()


@pytest.mark.parametrize(
    "module", ["os", "subprocess", "antigravity", "runspine.cli", "this.gymnasium", "gymnasiumx"]
)
def test_modules_of_other_packages_are_not_on_the_list(module: str) -> None:
    assert not is_allowed(module, {})
    assert refused_module(EnvMade(env_id="X-v0", entry_point=f"{module}:Env"), {}) == module


@pytest.mark.parametrize("module", ["gymnasium.wrappers", "ale_py.env", "minigrid.envs.empty", "highway_env"])
def test_packages_of_envs_are_on_the_list(module: str) -> None:
    assert is_allowed(module, {})


def test_an_adapter_that_makes_any_env_of_another_library_is_refused() -> None:
    env = EnvMade(env_id="GymV26Environment-v0", entry_point="gymnasium.envs:Adapter")
    assert refused_module(env, {}) == "GymV26Environment-v0"


def test_a_wrapper_that_writes_files_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "videos"
    env = wrapped("gymnasium.wrappers:RecordVideo", kwargs={"video_folder": str(folder)})
    made = make_recorded_env(env, {}, render_mode="rgb_array")
    made.reset(seed=1)
    close_env(made)
    assert not folder.exists()

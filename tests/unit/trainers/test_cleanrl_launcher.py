"""The parts of the launcher, one by one."""

from __future__ import annotations

import ast
import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import runspine.instrument
from runspine.instrument import compat, hooks, movie
from runspine.instrument.api import api_of
from runspine.instrument.models import networks_of
from runspine.instrument.probe import near
from runspine.instrument.slots import InSlot, SlotLedger, SlotPlace, take_place
from runspine.instrument.standins import StandInFinder
from runspine.sdk.numbers.slots import SlotNumbers

PACKAGE = Path(runspine.instrument.__file__).parent


def test_the_launcher_imports_nothing_but_the_standard_library_and_numpy() -> None:
    code = (
        "import sys; before = set(sys.modules)\n"
        "import runspine.instrument.program, runspine.instrument.movie\n"
        "tops = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "print(sorted(tops - set(sys.stdlib_module_names) - {'__mp_main__', 'numpy', 'runspine'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("folder", ["instrument", "instrument/corl", "sdk"])
def test_what_runs_in_a_runners_virtualenv_is_python_3_10(folder: str) -> None:
    for path in (PACKAGE.parent / folder).glob("*.py"):
        ast.parse(path.read_text(), feature_version=(3, 10))


@pytest.mark.parametrize(
    ("source", "api"),
    [
        ('if "final_info" in infos: pass', "0.29"),
        ('x = infos["final_observation"]', "0.29"),
        ('infos["final_info"]; SyncVectorEnv(fns, autoreset_mode=AutoresetMode.SAME_STEP)', "native"),
        ('infos["final_obs"], infos["final_info"]', "native"),
        ("env = gym.make('CartPole-v1')", "native"),
        ("my_final_information = 3", "native"),
    ],
)
def test_the_api_of_a_script_is_recognised_by_the_names_it_uses(source: str, api: str) -> None:
    assert api_of(source) == api


def test_slots_are_given_in_a_row_and_again_only_to_their_like() -> None:
    ledger = SlotLedger(SlotNumbers(Path(), "").take)
    training, slots = ledger.take(4, "training")
    evaluation, more = ledger.take(1, "evaluation")
    assert (slots, more) == (range(4), range(4, 5))
    ledger.give_back(training)
    ledger.give_back(evaluation)
    ledger.give_back(evaluation)  # once more changes nothing
    assert ledger.take(1, "evaluation")[1] == range(4, 5)
    assert ledger.take(1, "evaluation")[1] == range(5, 6)
    assert ledger.take(4, "training")[1] == range(4)
    assert ledger.take(2, "training")[1] == range(6, 8)
    assert ledger.emptied() == set(range(8))
    assert ledger.emptied() == set()


def seen() -> list[SlotPlace | None]:
    return [take_place(), take_place()]


def test_a_function_knows_its_slot_also_after_it_was_pickled() -> None:
    function = pickle.loads(pickle.dumps(InSlot(seen, SlotPlace(3, True))))
    # The second env that is made in there is another env.
    assert function() == [SlotPlace(3, True), None]
    assert take_place() is None


def test_infos_of_episodes_that_ended_are_what_they_were_in_0_29() -> None:
    batched = {
        "episode": {"r": np.array([1.5, 0.0]), "_r": np.array([True, False])},
        "_episode": np.array([True, False]),
        "lives": np.array([0, 2]),
        "_lives": np.array([False, True]),
        "loose": np.array([1, 1]),
    }
    first, second = compat.each_info(batched, np.array([True, False]))
    assert first == {"episode": {"r": 1.5}}
    assert second is None


def test_a_gymnasium_that_cannot_reset_in_the_same_step_is_refused() -> None:
    old: Any = ModuleType("gymnasium")
    old.__version__, old.vector, old.wrappers = "1.0.0", ModuleType("vector"), ModuleType("wrappers")
    with pytest.raises(
        compat.ApiTooNewError, match=r"1\.0\.0 cannot reset in the same step: use 0\.29\.1, or 1\.1"
    ):
        compat.apply(old)


def test_a_module_is_patched_as_it_is_imported_and_keeps_its_loader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "patched_thing.py").write_text("value = 1\n")
    (tmp_path / "patched_badly.py").write_text("value = 1\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", sys.meta_path[:])

    def patch(module: Any) -> None:
        module.value += 1

    def fail(module: Any) -> None:
        raise AttributeError("no such thing in this version")

    hooks.install({"patched_thing": patch, "patched_badly": fail})
    import patched_badly  # type: ignore[import-not-found]
    import patched_thing  # type: ignore[import-not-found]

    assert patched_thing.value == 2
    assert type(patched_thing.__loader__).__name__ == "SourceFileLoader"
    assert patched_thing.__spec__.loader is patched_thing.__loader__
    # Somebody else's new version costs the record, not the script.
    assert patched_badly.value == 1


def test_networks_are_the_scripts_own_once_each_and_without_followers() -> None:
    actor, critic = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)
    names = {
        "qf1": critic,
        "actor": actor,
        "policy": actor,
        "qf1_target": torch.nn.Linear(2, 1),
        "target_network": torch.nn.Linear(2, 1),
        "Agent": torch.nn.Linear,
        "args": {"target": 1},
    }
    assert list(networks_of(names, torch.nn.Module)) == ["actor", "qf1"]
    agent = torch.nn.Sequential(actor, critic)
    assert list(networks_of({**names, "agent": agent}, torch.nn.Module)) == ["agent"]
    assert networks_of({}, torch.nn.Module) == {}


def test_a_video_can_be_written_without_moviepy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import av

    monkeypatch.setattr(
        sys, "meta_path", [finder for finder in sys.meta_path if not isinstance(finder, StandInFinder)]
    )
    movie.install()
    frames = [np.full((41, 61, 3), value, np.uint8) for value in (0, 120, 255)]
    movie.ImageSequenceClip(frames, fps=29.97).write_videofile(str(tmp_path / "a.mp4"), logger=None)
    with av.open(str(tmp_path / "a.mp4")) as container:
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert [picture.shape for picture in pictures] == [(40, 60, 3)] * 3
    assert [round(float(picture.mean()) / 60) for picture in pictures] == [0, 2, 4]


def test_other_versions_of_an_env_come_first_among_the_near_ones() -> None:
    registry = ["LunarLander-v3", "LunarLanderContinuous-v3", "CartPole-v0", "CartPole-v1"]
    assert near("LunarLander-v2", registry)[0] == "LunarLander-v3"
    assert near("CartPol-v1", registry)[0] == "CartPole-v1"
    assert near("Nothing-v0", registry) == []

from __future__ import annotations

import pytest

from runspine.domain.runner_abilities import can_warm_start
from runspine.runners import Runner
from runspine.services.worker.runners.builtin import BuiltinRunner
from runspine.services.worker.runners.corl import CorlRunner
from runspine.services.worker.runners.sb3 import Sb3Runner
from runspine.services.worker.runners.spade_bdi import SpadeBdiRunner
from tests.kit.paths import FIXTURES


@pytest.mark.parametrize("runner", [BuiltinRunner(), CorlRunner(), Sb3Runner(), SpadeBdiRunner()])
def test_every_algorithm_states_whether_it_can_start_warm(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSPINE_CORL_DIR", str(FIXTURES / "corl_style"))
    info = runner.info()
    assert info.algos
    assert all(algo.HasField("warm_starts") for algo in info.algos)
    cold = {algo.name for algo in info.algos if not can_warm_start(info, algo.name)}
    # A script of a checkout begins at step 0, whatever it is given.
    assert cold == {algo.name for algo in info.algos if algo.name.startswith("corl-")}
    assert bool(cold) == (info.name == "corl")

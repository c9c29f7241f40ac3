"""CleanRL itself, unmodified: recorded steps and returns are those that the script counts and logs.

Needs a checkout (RUNSPINE_TEST_CLEANRL) and, for the stack CleanRL was written for, a Python with gymnasium
0.29 (RUNSPINE_TEST_CLEANRL_PYTHON): docs/howto/cleanrl.md shows how to make one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.kit.cleanrl import run_script
from tests.kit.samples.sdk import of_type

CHECKOUT = os.environ.get("RUNSPINE_TEST_CLEANRL", "")
OLD_PYTHON = os.environ.get("RUNSPINE_TEST_CLEANRL_PYTHON", "")
STEPS = int(os.environ.get("RUNSPINE_TEST_CLEANRL_STEPS", "2048"))
LEARN = ("--learning-starts", str(STEPS // 2))
PENDULUM = ("--env-id", "Pendulum-v1")
SCRIPTS = {
    "ppo": (),
    "dqn": LEARN,
    "c51": LEARN,
    "pqn": (),
    "ppo_continuous_action": PENDULUM,
    "rpo_continuous_action": PENDULUM,
    "ddpg_continuous_action": (*PENDULUM, *LEARN),
    "td3_continuous_action": (*PENDULUM, *LEARN),
    "sac_continuous_action": (*PENDULUM, *LEARN),
}
PYTHONS = [
    pytest.param(sys.executable, id="this-gymnasium"),
    pytest.param(
        OLD_PYTHON,
        id="gymnasium-0.29",
        marks=pytest.mark.skipif(not OLD_PYTHON, reason="RUNSPINE_TEST_CLEANRL_PYTHON names no Python"),
    ),
]
pytestmark = [
    pytest.mark.skipif(not CHECKOUT, reason="RUNSPINE_TEST_CLEANRL names no checkout of CleanRL"),
    pytest.mark.timeout(600),
]


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("algo", SCRIPTS)
def test_steps_and_returns_are_those_of_the_script(tmp_path: Path, algo: str, python: str) -> None:
    checkout = Path(CHECKOUT).resolve()
    done = run_script(
        tmp_path / algo,
        checkout / "cleanrl" / f"{algo}.py",
        *("--total-timesteps", str(STEPS), *SCRIPTS[algo]),
        python=python,
        checkout=checkout,
    )
    assert done.wait(560) == 0, done.output
    assert done.steps == STEPS
    assert done.printed[-1][0] <= STEPS
    recorded = sorted(line["return"] for line in done.training("episode"))
    # Before 1.0 Gymnasium adds rewards up as 32-bit floats.
    assert recorded == pytest.approx(sorted(done.metric("charts/episodic_return")), rel=1e-5)
    assert rounded(recorded) == rounded(sorted(value for _, value in done.printed))
    assert recorded
    assert len(done.artifacts("checkpoint")) == 1
    assert "WARNING" not in done.output


def rounded(values: Sequence[float]) -> list[str]:
    """As far as a print shows them."""
    return [f"{value:.5g}" for value in values]


@pytest.mark.parametrize("python", PYTHONS)
def test_a_model_is_saved_evaluated_and_filmed_and_the_run_ends(tmp_path: Path, python: str) -> None:
    checkout = Path(CHECKOUT).resolve()
    done = run_script(
        tmp_path / "dqn",
        checkout / "cleanrl" / "dqn.py",
        *("--total-timesteps", "1200", "--learning-starts", "500", "--save-model", "--track"),
        python=python,
        checkout=checkout,
    )
    assert done.wait(560) == 0, done.output
    assert done.steps == 1200
    (evaluation,) = of_type(done.emitted, "evaluation")
    assert evaluation["returns"] == done.metric("eval/episodic_return")
    assert len(evaluation["returns"]) == 10
    assert len(done.artifacts("video")) == 3
    (checkpoint,) = done.artifacts("checkpoint")
    assert checkpoint["meta"]["saved_by"] == "script"

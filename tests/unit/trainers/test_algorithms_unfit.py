"""An algorithm refuses an env that it cannot learn in, with the reason, before training begins."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from runspine.trainers.builtin import dqn, ppo, qlearning, sac
from runspine.trainers.builtin.envs import EnvUnfitError


@pytest.mark.parametrize(
    ("module", "env_id", "why"),
    [
        (dqn, "Pendulum-v1", "dqn needs discrete actions"),
        (sac, "CartPole-v1", "sac needs continuous actions"),
        (qlearning, "CartPole-v1", "qlearning needs discrete observations"),
        (ppo, "NoSuchThing-v0", "env NoSuchThing-v0 cannot be made"),
    ],
)
def test_an_unfit_env_is_refused_before_the_first_step(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, module: Any, env_id: str, why: str
) -> None:
    monkeypatch.setenv("RUNSPINE_RUN_DIR", str(tmp_path))
    # Signals are the process's: a training in a test must not take them.
    monkeypatch.setattr("signal.signal", lambda *_: None)
    with pytest.raises(EnvUnfitError, match=why):
        module.train(module.Args(env_id=env_id))
    assert not (tmp_path / "checkpoints").exists()

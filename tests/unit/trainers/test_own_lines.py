"""Programs that write protocol lines themselves, and those that do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspine.services.worker.runners.own_lines import writes_own_lines


@pytest.mark.parametrize(
    ("source", "own"),
    [
        ('print(json.dumps({"type": "step", "reward": 1}))', True),
        ("emit(type='episode', steps=3)", True),
        ('{ "type" : "env" }', True),
        ('print(json.dumps({"type": "metric", "value": 1}))', False),
        ("env = gym.make('CartPole-v1')\nenv.step(0)", False),
        ('step_type = "step"', False),
    ],
)
def test_steps_and_episodes_as_lines_are_seen(tmp_path: Path, source: str, own: bool) -> None:
    (tmp_path / "train.py").write_text(source)
    assert writes_own_lines(["train.py", "--lr", "1"], tmp_path) is own
    assert writes_own_lines(["-u", "-c", source], tmp_path) is own


def test_what_is_no_script_is_not_one_of_them(tmp_path: Path) -> None:
    (tmp_path / "x.py").mkdir()
    for arguments in ([], ["x.py"], ["missing.py"], ["-m", "package"], ["-c"]):
        assert not writes_own_lines(arguments, tmp_path)

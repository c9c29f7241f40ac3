"""Conditions and columns of `runspine ls`."""

from __future__ import annotations

from typing import Any

import pytest

from runspine.cli.lookup.conditions import checked_field, field_value, parse_condition, shown
from runspine.errors import InvalidError
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import RUNNING, Run
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from runspine.wire.v1.trainer_pb2 import RunSummary

SPEC = RunSpec(
    env="CartPole-v1",
    params={"lr": Value(number=1e-4), "name": Value(text="a=b"), "on": Value(boolean=True)},
)
RUN = Run(id="01A", phase=RUNNING, spec=SPEC, labels={"paper": "x"})
SUMMARY = RunSummary(run=RUN, progress=Progress(step=7, mean_return=3.5))
CONFIG = {"algo": "ppo", "args": {"lr": 9.0, "gamma": 0.99, "net": {"width": 64}, "a.b": 1, "seed": None}}


def value(path: str) -> Any:
    return field_value(SUMMARY, path, lambda: CONFIG)


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("params.lr", 1e-4),
        ("config.lr", 9.0),
        ("params.gamma", 0.99),
        ("config.net.width", 64),
        ("config.a.b", 1),
        ("config.algo", "ppo"),
        ("config.seed", None),
        ("params.nothing", None),
        ("labels.paper", "x"),
        ("state", "running"),
        ("return", 3.5),
        ("seed", None),
    ],
)
def test_a_field_is_the_runs_own_or_what_its_trainer_reported(path: str, expected: Any) -> None:
    assert value(checked_field(path, "--columns")) == expected


def test_the_trainers_configuration_is_read_only_when_it_is_needed() -> None:
    def unread() -> dict[str, Any]:
        raise AssertionError("read")

    assert field_value(SUMMARY, "params.lr", unread) == 1e-4
    assert field_value(SUMMARY, "env", unread) == "CartPole-v1"


@pytest.mark.parametrize(
    ("text", "holds"),
    [
        ("params.lr<1e-3", True),
        ("params.lr < 0.0001", False),
        ("params.lr<=1e-4", True),
        ("params.lr=0.0001", True),
        ("params.lr!=1", True),
        ("params.gamma>0.9", True),
        ("params.nothing>0", False),
        ("params.nothing!=0", False),
        ("params.name=a=b", True),
        ("params.name!=c", True),
        ("params.name>1", False),
        ("params.on=true", True),
        ("env~cartpole", True),
        ("env = CartPole-v1", True),
        ("return>=3.5", True),
    ],
)
def test_conditions_compare_numbers_as_numbers_and_text_as_text(text: str, holds: bool) -> None:
    condition = parse_condition(text)
    assert condition.holds(value(condition.field)) is holds


@pytest.mark.parametrize("text", ["params.lr", "params.lr<", "<3", "speed>1", "params.>1", ""])
def test_what_is_no_condition_is_refused_with_an_example_or_the_fields(text: str) -> None:
    with pytest.raises(InvalidError, match=r"params\.lr<1e-3|no such field of a run: one of"):
        parse_condition(text)


def test_cells_are_plain() -> None:
    assert [shown(each) for each in (None, "a", 0.5, True, [1])] == ["", "a", "0.5", "true", "[1]"]

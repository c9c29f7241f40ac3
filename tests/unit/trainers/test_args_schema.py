"""Parameters read from a script's source: ours, and scripts in CleanRL's style."""

from __future__ import annotations

import dataclasses
import importlib
import subprocess
import sys
import typing
from typing import Any

import pytest

from runspine.services.worker.runners.args_schema import NoSchemaError, params_of, summary_of
from runspine.services.worker.runners.builtin import ALGORITHMS, NAMES
from runspine.spec.plain import plain_value
from runspine.trainers.builtin.ranges import Range
from runspine.wire.v1.runner_pb2 import BOOLEAN, INTEGER, LIST, MAP, NUMBER, TEXT, Param
from tests.kit.paths import ROOT

SCRIPT = '''
"""A pretend trainer.

More about it.
"""
import os
import no_such_package_anywhere
from dataclasses import dataclass, field
from typing import List, Literal, Optional

raise SystemExit("this script must never be run")

@dataclass
class Args:
    exp_name: str = os.path.basename(__file__)[: -len(".py")]
    """the name of this experiment"""
    seed: int = 1
    track: bool = False
    """if toggled, this experiment
    will be tracked"""
    wandb_entity: str = None
    learning_rate: float = 3  # step size
    target_kl: Optional[float] = None
    """the limit"""
    total_timesteps: int = int(1e6)
    buffer_size: int = 2**14
    batch: int = 10 * 1000
    mode: Literal["fast", "slow"] = "slow"
    skip: Literal[1, 4] = 4
    sizes: List[int] = field(default_factory=lambda: [64, 64])
    tags: tuple[str, ...] = ("a", "b")
    extra: dict = field(default_factory=dict)
    share: "float | None" = None
    clip: typing.Annotated[float, Range(0, high=1)] = 0.2
    must: int
    batch_size: int = 0
    """computed in runtime"""
    _hidden: int = 3
'''


@pytest.fixture(scope="module")
def params() -> dict[str, Param]:
    return {param.name: param for param in params_of(SCRIPT)}


def default(param: Param) -> Any:
    return plain_value(param.default) if param.HasField("default") else None


@pytest.mark.parametrize(
    ("name", "kind", "value"),
    [
        ("seed", INTEGER, 1),
        ("track", BOOLEAN, False),
        ("wandb_entity", TEXT, None),
        ("learning_rate", NUMBER, 3.0),
        ("target_kl", NUMBER, None),
        ("total_timesteps", INTEGER, 1_000_000),
        ("buffer_size", INTEGER, 16384),
        ("batch", INTEGER, 10_000),
        ("mode", TEXT, "slow"),
        ("skip", INTEGER, 4),
        ("sizes", LIST, [64, 64]),
        ("tags", LIST, ["a", "b"]),
        ("extra", MAP, {}),
        ("share", NUMBER, None),
        ("clip", NUMBER, 0.2),
        # Not a literal: the script's own default is left to the script.
        ("exp_name", TEXT, None),
    ],
)
def test_type_and_default_are_read_without_running_the_script(
    params: dict[str, Param], name: str, kind: int, value: Any
) -> None:
    assert (params[name].type, default(params[name])) == (kind, value)
    assert type(default(params[name])) is type(value)


def test_help_is_the_string_under_a_field_or_the_comment_next_to_it(params: dict[str, Param]) -> None:
    assert params["track"].help == "if toggled, this experiment will be tracked"
    assert params["learning_rate"].help == "step size"
    assert params["seed"].help == ""


def test_choices_come_from_literal_and_ranges_from_our_mark(params: dict[str, Param]) -> None:
    assert list(params["mode"].choices) == ["fast", "slow"]
    assert list(params["skip"].choices) == ["1", "4"]
    assert (params["clip"].minimum, params["clip"].maximum) == (0, 1)
    assert not params["seed"].HasField("minimum")


def test_a_field_without_a_default_is_required_and_a_private_one_is_left_out(
    params: dict[str, Param],
) -> None:
    assert [name for name, param in params.items() if param.required] == ["must"]
    assert "_hidden" not in params


def test_fields_keep_their_order_and_can_be_left_out() -> None:
    names = [param.name for param in params_of(SCRIPT, without=frozenset({"seed"}))]
    assert names[:3] == ["exp_name", "track", "wandb_entity"]


def test_the_summary_is_the_first_line_of_the_docstring() -> None:
    assert summary_of(SCRIPT) == "A pretend trainer."


@pytest.mark.parametrize(
    ("source", "why"),
    [("x = 1", "no class Args"), ("class Args(:", "line 1"), ("", "no class Args")],
)
def test_a_source_without_arguments_is_refused_with_the_reason(source: str, why: str) -> None:
    with pytest.raises(NoSchemaError, match=why):
        params_of(source)


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_of_our_own_algorithms_is_what_their_dataclass_is(name: str) -> None:
    read = params_of((ALGORITHMS / f"{name}.py").read_text())
    args = importlib.import_module(f"runspine.trainers.builtin.{name}").Args
    hints = typing.get_type_hints(args, include_extras=True)
    assert [param.name for param in read] == [field.name for field in dataclasses.fields(args)]
    for param, field in zip(read, dataclasses.fields(args), strict=True):
        assert default(param) == field.default, param.name
        assert param.help, f"{name} has no help for {param.name}"
        for mark in getattr(hints[param.name], "__metadata__", ()):
            if isinstance(mark, Range):
                assert (param.minimum if param.HasField("minimum") else None) == mark.low
                assert (param.maximum if param.HasField("maximum") else None) == mark.high


def test_describing_the_runners_imports_neither_torch_nor_gymnasium() -> None:
    code = (
        "import sys; from runspine.services.worker.runners.builtin import BuiltinRunner; "
        "from runspine.services.worker.runners.sb3 import Sb3Runner; "
        "assert len(BuiltinRunner().info().algos) == 4; assert len(Sb3Runner().info().algos) == 6; "
        "assert not {'torch', 'gymnasium', 'numpy', 'stable_baselines3'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

from __future__ import annotations

import json
import re
from collections.abc import Iterator

import pytest

from runspine.runners import installed_runners
from runspine.runners.help import (
    ITEM,
    NAME,
    PARAMETERS,
    SETTING,
    SPEC_FIELDS,
    HelpText,
    algorithm_help,
    help_texts,
    with_help,
)
from runspine.wire.v1.runner_pb2 import AlgoInfo, Param, RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.paths import ROOT

OURS = ("builtin", "sb3", "spade_bdi")
FAMILIES = ("classic control", "Box2D", "MuJoCo", "Atari", "Procgen", "MiniGrid", "toy text")
SECTIONS = (PARAMETERS, "**By env family**", "**Vector envs**", "**Pitfalls**")
# Parameters of the scripts of CleanRL (fe8d8a0) and CORL (6afec90), as the runners read them.
CHECKOUTS: dict[str, dict[str, list[str]]] = json.loads(
    (ROOT / "tests/fixtures/checkout_params.json").read_text()
)
WORD = re.compile(r"`([a-z][a-z0-9_]*)`")


def info_of(runner: str) -> RunnerInfo:
    return installed_runners()[runner].info()


def of_checkouts() -> Iterator[tuple[str, AlgoInfo]]:
    for runner, scripts in CHECKOUTS.items():
        for name, params in scripts.items():
            yield runner, AlgoInfo(name=name, params=[Param(name=param) for param in params])


def parameters_named(text: str) -> set[str]:
    """Parameters that a text explains or sets."""
    section, found = "", set(SETTING.findall(text)) - SPEC_FIELDS
    for line in text.splitlines():
        section = line if line.startswith("**") else section
        item = ITEM.fullmatch(line)
        if section == PARAMETERS and item:
            found |= set(NAME.findall(item[1]))
    return found


def about(text: HelpText, runner: str) -> list[set[str]]:
    """Parameters of each algorithm that a text is about."""
    known = {algo.name: {param.name for param in algo.params} for algo in info_of(runner).algos}
    known |= {name: set(params) for name, params in CHECKOUTS.get(runner, {}).items()}
    return [params for name, params in known.items() if text.fit(name) >= 0]


EVERY_TEXT = [(runner, text) for runner in (*OURS, *CHECKOUTS) for text in help_texts(runner)]


def test_every_algorithm_of_every_runner_has_help(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNSPINE_CLEANRL_DIR", str(ROOT / "tests/fixtures/cleanrl_style"))
    monkeypatch.setenv("RUNSPINE_CORL_DIR", str(ROOT / "tests/fixtures/corl_style"))
    offered = [(name, algo) for name, each in installed_runners().items() for algo in each.info().algos]
    assert {name for name, _ in offered} == {*OURS, *CHECKOUTS}
    assert [(name, algo.name) for name, algo in offered if not algorithm_help(name, algo)] == []
    assert [algo.name for name, algo in of_checkouts() if not algorithm_help(name, algo)] == []


@pytest.mark.parametrize(("runner", "text"), EVERY_TEXT, ids=lambda each: getattr(each, "name", each))
def test_every_help_has_what_readers_look_for(runner: str, text: HelpText) -> None:
    places = [text.text.find(section) for section in SECTIONS]
    assert -1 not in places, SECTIONS
    assert places == sorted(places)
    families = {family for family in FAMILIES if f"\n| {family} | " in text.text}
    assert families == set(FAMILIES) if runner in OURS else families


@pytest.mark.parametrize(("runner", "text"), EVERY_TEXT, ids=lambda each: getattr(each, "name", each))
def test_a_text_names_only_parameters_that_its_algorithms_have(runner: str, text: HelpText) -> None:
    params = about(text, runner)
    assert params or text.name == "any", "a text about nothing"
    assert parameters_named(text.text) - set().union(*params) == set()


@pytest.mark.parametrize(("runner", "text"), EVERY_TEXT, ids=lambda each: getattr(each, "name", each))
def test_every_other_word_in_code_is_a_field_an_algorithm_or_a_value(runner: str, text: HelpText) -> None:
    algorithms = {algo.name for name in (*OURS, "corl") for algo in info_of(name).algos}
    fields = {field.name for field in RunSpec.DESCRIPTOR.fields}
    values = {choice for algo in info_of(runner).algos for param in algo.params for choice in param.choices}
    known = algorithms | set(CHECKOUTS["cleanrl"]) | fields | values | set().union(*about(text, runner))
    assert set(WORD.findall(text.text)) - known - {"procgen", "gym"} == set()


def test_the_help_of_a_script_leaves_out_what_it_does_not_have() -> None:
    for runner, algo in of_checkouts():
        given = {param.name for param in algo.params}
        assert parameters_named(algorithm_help(runner, algo)) - given == set(), algo.name
    params = [Param(name="gamma"), Param(name="num_envs")]
    short = algorithm_help("cleanrl", AlgoInfo(name="ppo", params=params))
    assert "- `num_envs`: their product" in short
    assert "- `gamma`: randomness" in short
    assert "| Box2D | 1,000,000 | `num_envs: 16`, `gamma: 0.999` |" in short
    assert "clip_coef" not in short


@pytest.mark.parametrize(
    ("script", "name"),
    [
        ("ppo", "ppo"),
        ("ppo_atari_envpool_xla_jax", "ppo_atari"),
        ("dqn_atari_jax", "dqn_atari"),
        ("rainbow_atari", "c51"),
        ("my_own_method", "any"),
    ],
)
def test_a_script_gets_the_text_of_its_family(script: str, name: str) -> None:
    text = next(each for each in help_texts("cleanrl") if each.name == name)
    assert algorithm_help("cleanrl", AlgoInfo(name=script)).startswith(text.text.partition("\n")[0])


def test_a_runner_of_another_package_gives_its_own_help_or_none() -> None:
    own = RunnerInfo(name="elsewhere", algos=[AlgoInfo(name="a", help="*mine*"), AlgoInfo(name="b")])
    assert [algo.help for algo in with_help(own).algos] == ["*mine*", ""]
    assert help_texts("../runners") == ()
    assert own.algos[1].help == "", "the board's own message is not changed"

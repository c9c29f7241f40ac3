from __future__ import annotations

import math

import numpy as np
import pytest

from runspine.compare.comparison import Comparison, Estimate, Settings, compare
from runspine.compare.curves import curve_of
from runspine.compare.groups import group_runs, member_of
from runspine.compare.references import (
    DatasetReturns,
    Reference,
    advise,
    dataset_returns,
    references,
    stage_of,
)
from runspine.services.dashboard.core.comparison import as_curves
from runspine.spec.plain import fill_value
from runspine.spec.strict_yaml import node_of
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import Dataset, RunSpec, Value, WarmStart

DATA = Dataset(name="mixed", digest="a" * 64)
ONLINE = {"online": Value(boolean=True)}
LINES = (Reference("random", -1200.0), Reference("data", -500.0), Reference("expert", -150.0))


def spec(**fields: object) -> RunSpec:
    return RunSpec(**{"runner": "corl", "algo": "td3_bc", "env": "Pendulum-v1", **fields})  # type: ignore[arg-type]


OFFLINE = spec(dataset=DATA)
TUNED = spec(dataset=DATA, params=ONLINE, warm_start=WarmStart(run_id="R"))


def test_a_run_is_called_what_it_does() -> None:
    assert stage_of(OFFLINE) == "offline"
    assert stage_of(TUNED) == stage_of(spec(warm_start=WarmStart(run_id="R"))) == "fine-tuned"
    assert stage_of(spec(dataset=DATA, params=ONLINE)) == "online"
    assert stage_of(spec()) == ""


def test_lines_are_on_the_scale_of_the_metric() -> None:
    meta: dict[str, Value] = {"env": Value(text="Pendulum-v1"), "returns": Value()}
    fill_value(meta["returns"], node_of({"random": -1200, "mean": -675.0, "expert": -150.0}, "r"), "r")
    found = dataset_returns("mixed", meta)
    assert found == DatasetReturns("mixed", "Pendulum-v1", -1200.0, -675.0, -150.0)
    values = {line.label: line.value for line in references([found], "episode/return", {})}
    assert values == {"random": -1200.0, "data": -675.0, "expert": -150.0}
    scores = {line.label: line.value for line in references([found], "charts/normalized_score", {})}
    assert scores == {"random": 0.0, "data": 50.0, "expert": 100.0}
    scaled = references([found], "episode/return", {"Pendulum-v1": (-1200.0, -150.0)})
    assert [line.value for line in scaled] == [0.0, 0.5, 1.0]
    assert references([found], "losses/policy_loss", {}) == ()
    assert references([DatasetReturns("bare", "E", data=3.0)], "charts/normalized_score", {}) == ()
    two = references([found, DatasetReturns("bare", "E", data=3.0)], "episode/return", {})
    assert two[-1] == Reference("data (bare)", 3.0)


def one_chart(*ends: float) -> Comparison:
    """An offline run of 300 updates, and its fine-tuning from there on."""
    runs = [Run(id="off", name="off", spec=OFFLINE), Run(id="on", name="on", spec=TUNED)]
    curves = {
        "off": curve_of([100, 200, 300], [-1000, -700, ends[0]]),
        "on": curve_of([300, 425, 550], [ends[0], -300, ends[1]]),
    }
    groups = group_runs([member_of(run) for run in runs])
    return compare(groups, curves, Settings(window=0.0), LINES)


def test_offline_and_fine_tuned_are_whole_on_one_chart() -> None:
    found = one_chart(-600.0, -200.0)
    assert [group.label for group in found.groups] == ["offline", "fine-tuned"]
    first, second = (group.band for group in found.groups)
    assert first.x[0] == 100
    assert first.x[-1] <= 300 <= second.x[0]
    assert second.x[-1] == 550
    assert all(np.isfinite(band.y).all() for band in (first, second))
    assert all(math.isfinite(group.area.value) for group in found.groups)
    curves = as_curves(found)
    assert [curve["name"] for curve in curves[2:]] == ["random -1200", "data -500", "expert -150"]
    assert curves[2]["x"] == [100.0, 550.0]
    assert curves[2]["y"] == [-1200.0, -1200.0]


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([("offline", -600.0), ("fine-tuned", -200.0)], "from -600 to -200: deploy the fine-tuned policy"),
        ([("offline", -600.0), ("fine-tuned", -140.0)], "reaches the expert: deploy the fine-tuned"),
        ([("offline", -300.0), ("fine-tuned", -400.0)], "not above the -300 of offline learning"),
        ([("offline", -140.0)], "deploy it; fine-tuning can add little"),
        ([("offline", -300.0)], "above its data (-500): deploy it, or fine-tune"),
        ([("offline", -800.0)], "not above its data (-500): train longer"),
        ([("fine-tuned", -200.0)], ""),
        ([("", -200.0)], ""),
        ([("offline", math.nan)], ""),
    ],
)
def test_the_advice_follows_from_the_final_values(groups: list[tuple[str, float]], words: str) -> None:
    found = advise([(stage, Estimate(value)) for stage, value in groups], LINES)
    assert words in found
    assert bool(words) == bool(found)


def test_an_interval_that_holds_the_baseline_is_no_improvement_yet() -> None:
    groups = [("offline", Estimate(-300.0)), ("fine-tuned", Estimate(-250.0, -350.0, -200.0))]
    assert "more seeds before you switch" in advise(groups, LINES)
    assert advise(groups, ()) == ""

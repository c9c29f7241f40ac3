"""The dashboards of deploy/grafana are what Grafana's dashboard model allows."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.kit.paths import ROOT

DASHBOARDS = sorted((ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
SCHEMA = json.loads((ROOT / "tests" / "kit" / "samples" / "grafana_dashboard.schema.json").read_text())
WIDTH = 24
Board = dict[str, Any]


def problems(board: Board) -> list[str]:
    found = Draft202012Validator(SCHEMA).iter_errors(board)
    return [f"{'/'.join(map(str, error.path))}: {error.message}" for error in found]


def read(path: Path) -> Board:
    board: Board = json.loads(path.read_text())
    return board


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_every_field_of_every_dashboard_is_of_the_model(path: Path) -> None:
    assert problems(read(path)) == []


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_panels_are_numbered_once_fit_the_grid_and_do_not_overlap(path: Path) -> None:
    panels = read(path)["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: dict[tuple[int, int], str] = {}
    for panel in panels:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= WIDTH, panel["title"]
        for x in range(place["x"], place["x"] + place["w"]):
            for y in range(place["y"], place["y"] + place["h"]):
                assert (x, y) not in taken, f"{panel['title']} lies on {taken[x, y]}"
                taken[x, y] = panel["title"]
        names = [target["refId"] for target in panel["targets"]]
        assert len(set(names)) == len(names), panel["title"]


def test_each_dashboard_has_a_uid_and_a_title_of_its_own() -> None:
    boards = [read(path) for path in DASHBOARDS]
    for field in ("uid", "title"):
        assert len({board[field] for board in boards}) == len(boards) == 5


def _without_place(board: Board) -> None:
    del board["panels"][0]["gridPos"]


def _unknown_field(board: Board) -> None:
    board["panels"][0]["grid_pos"] = {}


def _too_wide(board: Board) -> None:
    board["panels"][0]["gridPos"]["w"] = 25


def _unknown_unit(board: Board) -> None:
    board["panels"][0]["fieldConfig"]["defaults"]["unit"] = "byte"


def _empty_query(board: Board) -> None:
    board["panels"][0]["targets"][0]["expr"] = ""


def _options_of_another_panel(board: Board) -> None:
    kinds = {panel["type"]: panel["options"] for panel in board["panels"]}
    board["panels"][0]["options"] = kinds[({"stat", "timeseries"} - {board["panels"][0]["type"]}).pop()]


def _first_step_with_a_value(board: Board) -> None:
    panel = next(each for each in board["panels"] if "thresholds" in each["fieldConfig"]["defaults"])
    panel["fieldConfig"]["defaults"]["thresholds"]["steps"][0]["value"] = 1


def _another_source(board: Board) -> None:
    board["panels"][0]["datasource"]["uid"] = "elsewhere"


@pytest.mark.parametrize(
    "spoil",
    [
        _without_place,
        _unknown_field,
        _too_wide,
        _unknown_unit,
        _empty_query,
        _options_of_another_panel,
        _first_step_with_a_value,
        _another_source,
    ],
)
def test_what_grafana_would_not_draw_is_found(spoil: Callable[[Board], None]) -> None:
    board = copy.deepcopy(read(DASHBOARDS[0]))
    spoil(board)
    assert len(problems(board)) >= 1

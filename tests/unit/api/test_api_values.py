"""The API without a stack: filters, tables, cards, and its event loop."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from runspine.api.cards import run_card, run_rows, sparkline
from runspine.api.connect import endpoint_of
from runspine.api.fields import RunFields
from runspine.api.filters import build_spec, list_request, matches_params
from runspine.api.frames import Shape
from runspine.api.loop_thread import loop_thread
from runspine.api.tables import Points, as_format, points_schema, points_table, steps_table, wide_table
from runspine.errors import InvalidError, UnreachableError
from runspine.spec.plain import to_plain
from runspine.wire.v1.facts_pb2 import TrainerDescribed
from runspine.wire.v1.run_pb2 import COMPLETED, FAILED, RUNNING, Attempt, Run
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import Array, PointBlock, StepBlock
from tests.kit.paths import ROOT


def block(name: str, steps: list[int], values: list[float]) -> PointBlock:
    return PointBlock(
        name=name, steps=np.array(steps, "<u8").tobytes(), values=np.array(values, "<f8").tobytes()
    )


def table(**runs: list[PointBlock]) -> pa.Table:
    found = {}
    for run, blocks in runs.items():
        points = Points()
        for each in blocks:
            points.add(each)
        found[run] = points.chunks
    return points_table(found, points_schema(times=False, sampled=False))


def test_importing_runspine_loads_neither_the_api_nor_grpc() -> None:
    heavy = ("grpc", "runspine.", "pyarrow")
    code = f"import sys, runspine; print([m for m in sys.modules if m.startswith({heavy!r})])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_filters_become_a_request() -> None:
    when = datetime(2026, 1, 2, tzinfo=UTC)
    request = list_request(
        state=["running", "ended"], env="CartPole-v1", owner="ann", labels={"a": "b"},
        params={"lr": np.float64(0.5), "layers": (64, np.int64(32))}, since=when, until=0.5,
    )  # fmt: skip
    assert list(request.phases) == [RUNNING, COMPLETED, FAILED, 8]
    assert (request.submitted_after, request.submitted_before) == (int(when.timestamp() * 1e6), 500_000)
    assert request.submitted_by == "ann"
    assert to_plain(request)["params"] == {"layers": [64, 32], "lr": 0.5}


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"state": "runing"}, "state"),
        ({"env": 3}, "env"),
        ({"labels": {"a": 1}}, "labels.a"),
        ({"params": {"a": None}}, "params.a"),
        ({"since": "yesterday"}, "since"),
    ],
)
def test_a_wrong_filter_is_refused_by_its_field(filters: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        list_request(**filters)
    assert [violation.field for violation in caught.value.violations] == [field]


def test_a_parameter_is_compared_by_value_and_not_taken_for_another_type() -> None:
    run = Run(spec=build_spec(None, {"params": {"n": 1, "on": True}}))
    assert matches_params(run, list_request(params={"n": 1.0}))
    assert matches_params(run, list_request(params={"on": True}))
    for other in ({"n": True}, {"on": 1}, {"n": 2}, {"m": 1}):
        assert not matches_params(run, list_request(params=other))


def test_a_spec_is_built_from_the_fields_of_a_run_file() -> None:
    spec = build_spec({"env": "CartPole-v1"}, {"seed": np.int64(3), "command": [sys.executable, ROOT]})
    assert (spec.env, spec.seed, list(spec.command)) == ("CartPole-v1", 3, [sys.executable, str(ROOT)])
    assert build_spec(RunSpec(env="a"), {"algo": "b"}) == RunSpec(env="a", algo="b")
    with pytest.raises(InvalidError, match="Did you mean 'env'"):
        build_spec(None, {"envv": "x"})


def test_the_config_joins_what_was_asked_and_what_the_trainer_reported() -> None:
    run = Run(spec=build_spec(None, {"params": {"lr": 0.1}}))
    described = TrainerDescribed(config_json='{"algo": "ppo", "args": {"lr": 9, "gamma": 0.99}}')
    assert RunFields(run, [Attempt(described=described)]).config == {"lr": 0.1, "gamma": 0.99}
    assert RunFields(run).config == {"lr": 0.1}


def test_points_of_an_interrupted_read_are_not_doubled() -> None:
    points = Points()
    points.add(block("a", [0], [1.0]))
    points.keep()
    points.add(block("a", [1], [2.0]))
    points.add(block("b", [0], [3.0]))
    points.drop_unkept()
    points.add(block("a", [1], [2.0]))
    found = points_table({"r": points.chunks}, points_schema(times=False, sampled=False))
    assert found.select(["metric", "step", "value"]).to_pylist() == [
        {"metric": "a", "step": 0, "value": 1.0},
        {"metric": "a", "step": 1, "value": 2.0},
    ]


def test_a_frame_has_a_row_for_each_point_and_a_wide_one_for_each_step() -> None:
    nan = float("nan")
    made = table(
        x=[block("loss", [0, 1], [1.0, nan]), block("acc", [1, 1], [5.0, 6.0])], y=[block("loss", [0], [3.0])]
    )
    assert made.num_rows == 5
    assert made.column("run").to_pylist() == ["x", "x", "x", "x", "y"]
    wide = wide_table(made, ["loss", "acc"])
    # Of two values at one step the last one counts.
    rows = [tuple(row.values()) for row in wide.to_pylist()]
    assert rows[0] == ("x", 0, 1.0, None)
    assert rows[1][:2] + rows[1][3:] == ("x", 1, 6.0)
    assert np.isnan(rows[1][2])
    assert rows[2] == ("y", 0, 3.0, None)
    assert wide_table(table(x=[]), ["loss"]).num_rows == 0


def test_steps_of_agents_with_different_actions_are_one_table() -> None:
    def block_of(agent: str, shape: list[int], data: bytes) -> StepBlock:
        action = Array(dtype="<f4", shape=shape, data=data)
        return StepBlock(agent_id=agent, count=1, action=action, reward=Array(dtype="<f8", data=bytes(8)))

    one, two = block_of("a", [], b"\0\0\x80?"), block_of("b", [2], bytes(8))
    found = steps_table(1, [one, two])
    assert found.column("agent_id").to_pylist() == ["a", "b"]
    assert found.column("action").to_pylist() == ["1.0", "[0.0, 0.0]"]
    assert steps_table(1, [two, two]).column("action").to_pylist() == [[0.0, 0.0]] * 2
    assert steps_table(1, []).num_rows == 0


def test_a_frame_becomes_one_of_pandas_or_polars() -> None:
    made = table(x=[block("loss", [0, 2**63 + 1], [1.0, 2.0])])
    pandas, polars = as_format(made, "pandas"), as_format(made, "polars")
    assert pandas["step"].tolist() == polars["step"].to_list() == [0, 2**63 + 1]
    assert list(pandas["run"]) == polars["run"].to_list() == ["x", "x"]


@pytest.mark.parametrize(
    ("shape", "field"),
    [
        ({"samples": 0}, "samples"),
        ({"samples": 10**6}, "samples"),
        ({"format": "excel"}, "format"),
        ({"samples": 10, "times": True}, "times"),
        ({"wide": True, "times": True}, "times"),
    ],
)
def test_a_wrong_option_is_refused_by_its_field(shape: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidError) as caught:
        Shape(**shape)
    assert [violation.field for violation in caught.value.violations] == [field]


class Tags(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(tag)


def test_names_given_by_users_are_text_on_a_card() -> None:
    evil = "<script>alert(1)</script>'\" onload='x"
    run = RunFields(
        Run(id="01X", name=evil, reason=evil, labels={evil: evil}, spec=RunSpec(env=evil, algo=evil))
    )
    for made in (run_card(run, evil, [0, 1], [1, 2]), run_rows([run], 1)):
        assert set(Tags(made).found) <= {
            "div", "b", "span", "svg", "polyline", "table", "thead", "tbody", "tr", "th", "td",
        }  # fmt: skip
        assert "<script" not in made


def test_a_sparkline_has_gaps_where_there_is_no_number() -> None:
    nan, inf = float("nan"), float("inf")
    assert sparkline([0, 1, 2, 3], [1.0, nan, 2.0, inf]).count("<polyline") == 2
    assert sparkline([0, 1], [nan, nan]) == ""
    assert "nan" not in sparkline([0, 1], [-1.7e308, 1.7e308])


def test_calls_work_inside_a_running_loop() -> None:
    async def answer() -> int:
        await asyncio.sleep(0)
        return 42

    async def cell() -> int:
        return loop_thread().run(answer()) + await loop_thread().wait(answer())

    assert asyncio.run(cell()) == 84


def test_a_cancelled_wait_cancels_the_call() -> None:
    seen: list[str] = []

    async def endless() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(loop_thread().wait(endless()), 0.1)

    asyncio.run(main())
    loop_thread().run(asyncio.sleep(0))
    assert seen == ["cancelled"]


def test_a_token_of_a_home_is_not_sent_to_another_address(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("RUNSPINE_TOKEN", "RUNSPINE_ADDRESS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials.json").write_text('{"token": "secret"}')
    (tmp_path / "stack.json").write_text('{"addresses": {"orchestrator": "127.0.0.1:1"}}')
    assert endpoint_of(None, None, None, None, home=tmp_path).token == "secret"
    assert endpoint_of("127.0.0.1:2", None, None, None, home=tmp_path).token == ""
    monkeypatch.setenv("RUNSPINE_ADDRESS", "127.0.0.1:3")
    mine = endpoint_of(None, None, None, None, home=tmp_path)
    assert (mine.trainer, mine.token) == ("127.0.0.1:1", "secret")


def test_a_stack_that_is_away_is_an_error_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from runspine.api import Api, connect

    monkeypatch.setattr(connect, "PATIENCE_SECONDS", 0.0)
    nowhere = "127.0.0.1:1"
    with (
        Api(nowhere, "t", telemetry_address=nowhere, artifacts_address=nowhere) as api,
        pytest.raises(UnreachableError, match=nowhere.replace(".", r"\.")),
    ):
        api.run("x")

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from runspine.cli.commands.analysis.metrics import _binned
from runspine.cli.ui.curve import LiveCurve, draw_curve
from runspine.text.values import extremes
from runspine.wire.v1.telemetry_pb2 import Series

numbers = st.floats(-1e9, 1e9)


def dots(line: str) -> int:
    return sum(bin(ord(c) - 0x2800).count("1") for c in line if 0x2800 <= ord(c) <= 0x28FF)


def test_a_rising_curve_rises() -> None:
    lines = draw_curve([(x, x) for x in range(100)], title="return", width=40, height=5)
    assert lines[0] == "return"
    rows = [line.split("┤")[1] for line in lines[1:6]]
    starts = [next(i for i, c in enumerate(row) if c != chr(0x2800)) for row in rows]
    assert starts == sorted(starts, reverse=True)
    assert lines[1].lstrip().startswith("99")
    assert lines[-1].endswith("99 steps")


def test_too_few_points_draw_nothing() -> None:
    assert draw_curve([(0, 1), (1, 2)], title="") == []


def test_a_flat_curve_is_drawn_too() -> None:
    assert sum(map(dots, draw_curve([(x, 7.0) for x in range(9)], title="t"))) > 0


def test_only_new_steps_with_real_values_become_points() -> None:
    curve = LiveCurve()
    for x, y in ((0, 1.0), (0, 2.0), (5, math.nan), (6, math.inf), (7, 3.0), (3, 4.0)):
        curve.add(x, y)
    assert curve.points == [(0, 1.0), (7, 3.0)]


@given(st.lists(st.tuples(st.integers(0, 10**9), numbers), min_size=3, max_size=50, unique_by=lambda p: p[0]))
def test_anything_can_be_drawn_within_its_frame(points: list[tuple[float, float]]) -> None:
    lines = draw_curve(sorted(points), title="t", width=30, height=6)
    assert len(lines) == 9
    assert all(len(line.split("┤")[1]) <= 30 for line in lines[1:7])


def test_a_value_that_is_not_a_number_hides_no_extreme() -> None:
    values = [math.nan, 3.0, math.nan, 1.0, 2.0]
    assert extremes(values, values) == (1.0, 3.0)
    assert extremes([math.nan, -math.inf], [math.inf]) == (-math.inf, math.inf)
    assert all(map(math.isnan, extremes([], [math.nan])))
    binned = _binned(Series(y=values * 2, low=values * 2, high=values * 2), [float(x) for x in range(10)], 2)
    assert binned[1:] == ([1.0, 1.0], [3.0, 3.0])

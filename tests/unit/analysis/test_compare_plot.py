"""Charts in the terminal: plain where nobody sees colours, and nothing raises."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.cli.ui.plot import PlotLine, draw, sparkline

NUMBERS = st.one_of(st.floats(-1e12, 1e12), st.sampled_from([math.nan, math.inf, -math.inf]))


def test_every_curve_has_its_letter_at_its_end_and_in_the_legend() -> None:
    rising = PlotLine("rising", [0, 1, 2], [0.0, 1.0, 2.0], [0.0, 0.5, 1.0], [0.0, 1.5, 3.0])
    falling = PlotLine("falling", [0, 1, 2], [2.0, 1.0, 0.0])
    text = draw([rising, falling], title="t", x_label="steps", width=40, height=8)
    chart = "\n".join(text[1:9])
    assert chart.count("A") == chart.count("B") == 1
    assert "░" in chart
    assert text[-2].endswith("A ⠤⠤ rising")
    assert text[-1].endswith("B ⠤⠤ falling")
    assert "\x1b" not in "\n".join(text), "no colours where nobody sees them"


def test_curves_that_end_together_keep_their_letters_apart() -> None:
    lines = [PlotLine(name, [0, 1], [0.0, 1.0]) for name in "abc"]
    chart = "\n".join(draw(lines, title="", x_label="x", width=30, height=8)[1:9])
    assert all(chart.count(letter) == 1 for letter in "ABC")


@given(st.lists(st.tuples(st.floats(0, 1e9), NUMBERS), min_size=1, max_size=40), st.integers(20, 100))
def test_any_points_are_drawn_in_the_room_there_is(points: list[tuple[float, float]], width: int) -> None:
    ordered = sorted(points, key=lambda point: point[0])
    line = PlotLine("l", [x for x, _ in ordered], [y for _, y in ordered])
    text = draw([line], title="t", x_label="x", width=width, height=6)
    if any(math.isfinite(y) for _, y in points):
        labels = text[1].index("┤")
        assert all(len(row) <= labels + 1 + width for row in text[1:7])
    else:
        assert "no point is a number" in text[1]


def test_a_name_cannot_act_on_the_terminal() -> None:
    text = "\n".join(draw([PlotLine("\x1b[2J", [0, 1], [0.0, 1.0])] * 2, title="\x1b]0;x", x_label="x"))
    assert "\x1b" not in text


@pytest.mark.parametrize(
    ("values", "drawn"),
    [([0.0, 1.0], "▁█"), ([5.0, 5.0], "▅▅"), ([0.0, math.nan, 8.0], "▁ █"), ([math.nan], ""), ([], "")],
)
def test_a_sparkline_shows_the_shape(values: list[float], drawn: str) -> None:
    assert sparkline(values) == drawn

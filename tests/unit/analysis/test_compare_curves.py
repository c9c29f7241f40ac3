"""Curves on one grid, sample efficiency, groups, and whole comparisons."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.compare.comparison import Settings, compare
from runspine.compare.curves import curve_of, grid_over, on_grid
from runspine.compare.efficiency import area, final, reached
from runspine.compare.groups import Group, Member, group_runs
from runspine.errors import InvalidError

POINTS = st.lists(st.tuples(st.integers(0, 1000), st.floats(-1e3, 1e3)), min_size=1, max_size=60)


def naive(points: list[tuple[float, float]], grid: list[float], width: float) -> list[float]:
    """What `on_grid` promises, word for word and slowly."""
    ordered = sorted(points, key=lambda point: point[0])
    found: list[float] = []
    for at, place in enumerate(grid):
        left = min(place - width, grid[at - 1]) if at else place - width
        inside = [y for x, y in ordered if x <= place and (x > left or at == 0)]
        own = [y for x, y in ordered if x <= place and (at == 0 or x > grid[at - 1])]
        value = sum(inside) / len(inside) if inside else (found[-1] if found else math.nan)
        beyond = place > ordered[-1][0] and not own
        found.append(math.nan if beyond else value)
        if beyond:
            # Nothing comes after the end.
            return found + [math.nan] * (len(grid) - len(found))
    return found


@given(POINTS, st.integers(2, 20), st.sampled_from([0.0, 25.0, 400.0]))
def test_a_place_of_the_grid_is_the_mean_of_its_window(
    points: list[tuple[float, float]], count: int, width: float
) -> None:
    curve = curve_of(*zip(*points, strict=True))
    grid = np.linspace(curve.start, 1000.0 if curve.start < 1000 else 1001.0, count)
    got = on_grid(curve, grid, width)
    assert got == pytest.approx(naive(points, grid.tolist(), width), nan_ok=True, rel=1e-9, abs=1e-6)


def test_where_no_episode_ended_the_last_value_holds() -> None:
    curve = curve_of([0, 10, 50], [1.0, 3.0, 9.0])
    assert on_grid(curve, np.array([0.0, 10, 20, 30, 40, 50])).tolist() == [1, 3, 3, 3, 3, 9]


def test_what_is_not_a_number_is_left_out_and_counted() -> None:
    curve = curve_of([0, 1, 2, 3], [1.0, math.nan, math.inf, 5.0])
    assert (curve.x.tolist(), curve.y.tolist(), curve.dropped) == ([0, 3], [1, 5], 2)
    assert len(curve_of([0, 1], [math.nan, math.nan])) == 0


def test_the_grid_begins_where_every_run_has_begun() -> None:
    grid = grid_over([curve_of([5, 100], [0, 1]), curve_of([20, 60], [0, 1])], 5)
    assert grid.tolist() == [20, 40, 60, 80, 100]


@given(st.lists(st.floats(-100, 100), min_size=2, max_size=50))
def test_the_area_is_the_integral_by_the_width(values: list[float]) -> None:
    from scipy import integrate  # half a second, which each process of tests would pay

    grid = np.linspace(3, 17, len(values))
    expected = integrate.trapezoid(values, grid) / 14
    assert area(grid, np.array(values)) == pytest.approx(expected, abs=1e-9)


def test_the_final_performance_is_the_mean_of_the_last_tenth_of_the_budget() -> None:
    curve = curve_of(np.arange(0, 1001, 10), np.arange(0, 1001, 10))  # type: ignore[arg-type]
    last = [x for x in range(0, 1001, 10) if 900 < x <= 1000]
    assert final(curve, 1000, 0.1) == pytest.approx(sum(last) / len(last))
    sparse = curve_of([0, 100, 500], [1.0, 2.0, 7.0])
    assert final(sparse, 1000, 0.1) == 7.0, "the last one when none is in the last tenth"


def test_a_threshold_is_reached_where_the_curve_first_is_there() -> None:
    grid = np.array([0.0, 10, 20, 30])
    assert reached(grid, np.array([0.0, 5, 3, 9]), 5) == 10
    assert reached(grid, np.array([0.0, 1, 2, 3]), 5) == math.inf


def members(*rows: tuple[str, dict[str, object]]) -> list[Member]:
    return [
        Member(name, name, str(fields.get("env", "E")), fields, {"seed": n})
        for n, (name, fields) in enumerate(rows)
    ]


def test_runs_that_differ_in_nothing_but_their_seed_are_one_group() -> None:
    same = {"env": "E", "algo": "ppo", "params.lr": 0.1}
    found = group_runs(members(("a", same), ("b", same), ("c", {**same, "params.lr": 0.2})))
    assert [(g.label, [m.name for m in g.members]) for g in found] == [
        ("lr=0.1", ["a", "b"]),
        ("lr=0.2", ["c"]),
    ]


def test_a_label_has_only_the_fields_that_distinguish_groups() -> None:
    """Two algorithms have many parameters that differ; their names are enough."""
    found = group_runs(
        members(
            ("a", {"env": "E", "algo": "ppo", "params.clip": 0.2}),
            ("b", {"env": "E", "algo": "dqn", "params.tau": 1.0}),
        )
    )
    assert [g.label for g in found] == ["ppo", "dqn"]
    assert group_runs(members(("a", {"env": "E", "algo": "ppo"})))[0].label == "E ppo"


def test_an_unknown_field_to_group_by_names_the_nearest() -> None:
    with pytest.raises(InvalidError, match=r"params\.gamma"):
        group_runs(members(("a", {"params.gamma": 0.9})), ["params.gama"])


def group_of(count: int, label: str = "g", env: str = "E") -> Group:
    return Group(label, tuple(Member(f"{label}{n}", f"{label}{n}", env) for n in range(count)))


def test_a_group_is_drawn_to_the_end_of_its_shortest_run() -> None:
    group = group_of(2)
    curves = {
        "g0": curve_of(range(0, 101, 10), range(0, 101, 10)),
        "g1": curve_of(range(0, 51, 10), range(0, 51, 10)),
    }
    cut = compare([group], curves, Settings(points=11, window=0)).groups[0]
    assert cut.end == 50
    assert cut.band.x.max() == 50
    assert cut.band.runs.tolist() == [2] * 6
    assert cut.band.y.tolist() == [0, 10, 20, 30, 40, 50]
    whole = compare([group], curves, Settings(points=11, window=0, whole=True)).groups[0]
    assert whole.band.runs.tolist() == [2] * 6 + [1] * 5
    assert whole.band.y.tolist() == list(range(0, 101, 10))
    assert np.isnan(whole.band.low[6:]).all(), "one run that is left has no interval"


def test_one_seed_gives_a_curve_and_figures_without_intervals() -> None:
    only = compare([group_of(1)], {"g0": curve_of([0, 10], [1.0, 2.0])}, Settings()).groups[0]
    assert only.final_iqm.value == 2.0
    assert math.isnan(only.final_iqm.low)
    assert math.isnan(only.final_std)
    assert np.isnan(only.band.low).all()


def test_a_run_with_one_point_is_a_curve_of_one_place() -> None:
    found = compare([group_of(1)], {"g0": curve_of([7], [3.0])}, Settings())
    assert found.groups[0].band.y.tolist() == [3.0]
    assert found.groups[0].area.value == 3.0


def test_seeds_that_never_get_there_count_as_later_than_any_other() -> None:
    curves = {
        "g0": curve_of([0, 10, 20], [0.0, 9, 9]),
        "g1": curve_of([0, 10, 20], [0.0, 0, 9]),
        "g2": curve_of([0, 10, 20], [0.0, 0, 0]),
    }
    group = compare([group_of(3)], curves, Settings(points=3, window=0, threshold=9)).groups[0]
    assert (group.reached, group.reached_count) == (20, 2)
    two = compare(
        [group_of(2)], {"g0": curves["g0"], "g1": curves["g2"]}, Settings(points=3, window=0, threshold=9)
    )
    assert two.groups[0].reached == math.inf, "half of them never do"


def test_without_a_threshold_it_is_nine_tenths_of_the_way_to_the_best() -> None:
    curves = {"a0": curve_of([0, 100], [10.0, 20.0]), "b0": curve_of([0, 100], [0.0, 110.0])}
    found = compare([group_of(1, "a"), group_of(1, "b")], curves, Settings(points=2, window=0))
    assert found.threshold == pytest.approx(0 + 0.9 * 110)
    assert not found.threshold_given


def test_one_more_group_does_not_change_the_intervals_of_the_others() -> None:
    dice = np.random.default_rng(1)
    curves = {f"{g}{n}": curve_of(range(20), dice.normal(size=20)) for g in "ab" for n in range(5)}  # type: ignore[arg-type]
    alone = compare([group_of(5, "a")], curves, Settings(threshold=0.0)).groups[0]
    with_another = compare([group_of(5, "b"), group_of(5, "a")], curves, Settings(threshold=0.0)).groups[1]
    assert np.array_equal(alone.band.low, with_another.band.low)
    assert alone.final_iqm == with_another.final_iqm


def test_the_band_is_the_statistic_of_the_curves_at_every_place() -> None:
    dice = np.random.default_rng(2)
    xs = np.arange(50)
    curves = {f"g{n}": curve_of(xs, dice.normal(n, 1, 50)) for n in range(8)}  # type: ignore[arg-type]
    found = compare([group_of(8)], curves, Settings(points=50, window=0, statistic="iqm")).groups[0]
    for at, x in enumerate(found.band.x):
        values = sorted(float(curves[f"g{n}"].y[round(x)]) for n in range(8))
        assert found.band.y[at] == pytest.approx(sum(values[2:6]) / 4)
        assert found.band.low[at] <= found.band.y[at] <= found.band.high[at]

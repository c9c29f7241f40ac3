"""Charts never lose an extreme, and state how many points they represent."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from runspine.services.telemetry.core.curves import CurveWindow, bucketed, exact, sift, size_for
from runspine.services.telemetry.core.levels import (
    SIZES,
    Buckets,
    Stretch,
    buckets_of,
    from_summaries,
    levels,
    levels_table,
    single_points,
    summary,
)
from runspine.wire.v1.telemetry_pb2 import ENV_STEP, EPISODE, TIME

floats = st.floats(allow_nan=True, allow_infinity=False, width=64)


def stretch(values: np.ndarray, row: int = 0) -> Stretch:
    n = len(values)
    return Stretch("s", 1, row, np.arange(n, dtype=np.uint64), np.arange(n, dtype=np.int64) * 10, values)


def everywhere() -> CurveWindow:
    return CurveWindow(ENV_STEP, -np.inf, np.inf)


@given(st.lists(floats, min_size=1, max_size=60), st.integers(1, 9), st.integers(1, 300))
def test_no_extreme_is_lost_by_down_sampling(seed: list[float], max_points: int, times: int) -> None:
    values = np.resize(np.array(seed), len(seed) * times)
    for size, buckets in [(1, single_points(stretch(values))), *levels(stretch(values))]:
        drawn = bucketed("s", buckets, everywhere(), max_points)
        assert drawn.points == len(values), size
        assert len(drawn.x) <= max_points
        assert np.array_equal(np.fmin.reduce(drawn.low), np.fmin.reduce(values), equal_nan=True)
        assert np.array_equal(np.fmax.reduce(drawn.high), np.fmax.reduce(values), equal_nan=True)
        assert list(drawn.x) == sorted(drawn.x)


@settings(max_examples=60)
@given(st.integers(1, 5000), st.integers(0, 5000), st.integers(0, 5000), st.integers(0, 2**32 - 1))
def test_whole_and_cut_buckets_cover_exactly_what_is_in_range(n: int, a: int, b: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=n)
    window = CurveWindow(ENV_STEP, min(a, b), max(a, b))
    points = single_points(stretch(values))
    inside, cut = sift(points, window, None)
    assert not cut.any()
    expected = values[min(a, b) : max(a, b) + 1]
    assert np.array_equal(points.pick(inside).low, expected)
    for _, buckets in levels(stretch(values)):
        whole, partly = sift(buckets, window, None)
        assert not (whole & partly).any()
        kept = buckets.pick(whole | partly)
        assert int(kept.count.sum()) >= len(expected)
        if len(expected):
            assert kept.low.min() <= expected.min()


def test_a_cutoff_hides_points_whatever_the_axis_is() -> None:
    points = single_points(stretch(np.arange(10.0)))
    for axis in (ENV_STEP, TIME):
        inside, _ = sift(points, CurveWindow(axis, -np.inf, np.inf), 4)
        assert points.pick(inside).low.tolist() == [0, 1, 2, 3, 4]
    assert not sift(points, everywhere(), -1)[0].any()


def test_a_mean_leaves_out_what_is_not_a_number() -> None:
    drawn = bucketed("s", single_points(stretch(np.array([1.0, np.nan, 3.0, np.nan]))), everywhere(), 1)
    assert (drawn.y[0], drawn.low[0], drawn.high[0], drawn.points) == (2.0, 1.0, 3.0, 4)


def test_points_stay_exact_and_in_order_of_x() -> None:
    shuffled = Stretch(
        "s", 1, 0, np.array([3, 1, 2], np.uint64), np.zeros(3, np.int64), np.array([30.0, 10.0, 20.0])
    )
    drawn = exact("s", single_points(shuffled), everywhere())
    assert (list(drawn.x), list(drawn.y), drawn.exact) == ([1, 2, 3], [10, 20, 30], True)


def test_on_the_episode_axis_x_is_how_many_had_ended() -> None:
    window = CurveWindow(EPISODE, 1, 2, ends=np.array([15, 35]))
    points = single_points(stretch(np.arange(6.0)))
    assert window.firsts(points).tolist() == [0, 0, 1, 1, 2, 2]
    assert points.pick(sift(points, window, None)[0]).low.tolist() == [2, 3, 4, 5]


def test_levels_are_read_back_by_series_and_attempt() -> None:
    a, b = stretch(np.arange(1000.0)), stretch(-np.arange(700.0), row=1000)._replace(name="t", attempt=2)
    made = levels_table([a, b])
    assert made is not None
    table, groups = made
    assert sum(groups) == table.num_rows
    finest = table.slice(0, groups[0])
    found = buckets_of(finest, "t", 2)
    assert (found.row.tolist(), found.count.tolist()) == ([1000, 1256, 1512], [256, 256, 188])
    assert found.low.min() == -699
    assert not len(buckets_of(finest, "t", 1))
    assert not len(buckets_of(finest, "unknown", 1))


def test_a_summary_is_the_whole_as_one_bucket() -> None:
    received = summary(stretch(np.array([5.0, np.nan, -2.0]), row=9))
    assert (received.points, received.nans, received.low, received.high, received.last, received.row) == (
        3,
        1,
        -2.0,
        5.0,
        -2.0,
        9,
    )
    assert from_summaries([received]).total.tolist() == [3.0]


def test_the_level_fits_the_number_of_points_wanted() -> None:
    assert size_for(100_000_000, 1000) == 65_536
    assert size_for(1_000_000, 1000) == 256
    assert size_for(100_000, 1000) == 0
    assert size_for(10**12, 1) == SIZES[-1]
    assert not len(Buckets.join([]))

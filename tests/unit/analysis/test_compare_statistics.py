"""Statistics over seeds, against formulas written down a second time."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from runspine.compare.statistics import bootstrap, iqm, mean

FINITE = st.floats(-1e6, 1e6)
MATRICES = arrays.arrays(np.float64, st.tuples(st.integers(1, 24), st.integers(1, 5)), elements=FINITE)


@given(MATRICES)
def test_the_iqm_is_the_mean_trimmed_by_a_quarter(values: np.ndarray) -> None:
    from scipy import stats  # half a second, which each process of tests would pay

    expected = stats.trim_mean(values, 0.25, axis=0)
    assert iqm(values) == pytest.approx(expected, rel=1e-12, abs=1e-6)


@given(MATRICES)
def test_no_order_of_the_seeds_changes_anything(values: np.ndarray) -> None:
    assert iqm(values[::-1]) == pytest.approx(iqm(values), rel=1e-12, abs=1e-6)


def test_a_seed_that_went_astray_does_not_move_the_iqm() -> None:
    seeds = np.array([[10.0], [11.0], [12.0], [13.0]])
    astray = np.array([[10.0], [11.0], [12.0], [1e9]])
    assert iqm(seeds) == iqm(astray) == pytest.approx([11.5])
    assert mean(astray)[0] > 1e8


def test_of_three_seeds_the_iqm_is_the_mean() -> None:
    assert iqm(np.array([[1.0], [5.0], [9.0]])) == pytest.approx([5.0])


def test_the_interval_is_that_of_all_possible_resamples() -> None:
    """With three seeds there are 27 of them: the bootstrap must find their quantiles."""
    seeds = [3.0, 7.0, 20.0]
    every = sorted(sum(drawn) / 3 for drawn in itertools.product(seeds, repeat=3))
    found = bootstrap(
        np.array(seeds)[:, None], [0, 0, 0], mean, np.random.default_rng(1), samples=20_000, confidence=0.8
    )
    assert found is not None
    # A tenth of 27 is the third smallest.
    assert found.low[0] == pytest.approx(every[2])
    assert found.high[0] == pytest.approx(every[-3])


def test_the_interval_agrees_with_scipys() -> None:
    from scipy import stats  # half a second, which each process of tests would pay

    seeds = np.random.default_rng(7).normal(100, 15, 12)
    ours = bootstrap(seeds[:, None], [0] * 12, iqm, np.random.default_rng(2), samples=20_000)
    theirs = stats.bootstrap(
        (seeds,),
        lambda x, axis: stats.trim_mean(x, 0.25, axis=axis),
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(3),
    ).confidence_interval
    assert ours is not None
    spread = theirs.high - theirs.low
    assert abs(ours.low[0] - theirs.low) < 0.05 * spread
    assert abs(ours.high[0] - theirs.high) < 0.05 * spread


def test_the_interval_holds_the_truth_about_as_often_as_its_confidence() -> None:
    dice = np.random.default_rng(0)
    inside = 0
    for _ in range(200):
        seeds = dice.normal(0, 1, 30)
        found = bootstrap(seeds[:, None], [0] * 30, mean, dice, samples=400, confidence=0.9)
        assert found is not None
        inside += found.low[0] <= 0 <= found.high[0]
    assert 0.80 < inside / 200 < 0.97


def test_strata_are_drawn_from_apart() -> None:
    """Two envs with one value each: however often runs are drawn again, the mean stays."""
    values = np.array([[0.0], [0.0], [100.0], [100.0]])
    stratified = bootstrap(values, [0, 0, 1, 1], mean, np.random.default_rng(0))
    pooled = bootstrap(values, [0, 0, 0, 0], mean, np.random.default_rng(0))
    assert stratified is not None
    assert pooled is not None
    assert (stratified.low[0], stratified.high[0]) == (50.0, 50.0)
    assert pooled.low[0] < 50 < pooled.high[0]


def test_one_seed_has_no_interval() -> None:
    assert bootstrap(np.array([[5.0]]), [0], iqm, np.random.default_rng(0)) is None
    assert bootstrap(np.array([[5.0], [9.0]]), [0, 1], iqm, np.random.default_rng(0)) is None


def test_the_same_seed_gives_the_same_interval_and_pieces_of_any_size_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = np.random.default_rng(5).normal(size=(6, 40))
    whole = bootstrap(values, [0] * 6, iqm, np.random.default_rng(9), samples=300)
    monkeypatch.setattr("runspine.compare.statistics.MAX_RESAMPLED", 1000)
    pieces = bootstrap(values, [0] * 6, iqm, np.random.default_rng(9), samples=300)
    other = bootstrap(values, [0] * 6, iqm, np.random.default_rng(10), samples=300)
    assert whole is not None
    assert pieces is not None
    assert other is not None
    assert np.array_equal(whole.low, pieces.low)
    assert np.array_equal(whole.high, pieces.high)
    assert not np.array_equal(whole.low, other.low)
    assert not math.isnan(float(whole.low.sum()))

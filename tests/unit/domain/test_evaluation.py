"""Evaluation from a trainer's line to the archive: figures, batches, rules of a spec, places on a board."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runspine.cli.commands.analysis.leaderboard import LeaderboardEntry, ranked
from runspine.cli.lookup.checkpoint_reference import choose
from runspine.domain.scores import Running, figures_of, interval_of
from runspine.errors import RunNotFoundError
from runspine.services.orchestrator.core.spec_rules import violations, with_defaults
from runspine.services.telemetry.core import parquet
from runspine.services.telemetry.core.rows import EVALUATIONS, Arrival, batch_kind
from runspine.services.telemetry.core.segments import arrivals_of, join_segments, make_segments, tables_of
from runspine.services.telemetry.core.visibility import visible_part
from runspine.services.worker.runners.evaluation import command
from runspine.services.worker.telemetry.assembly.assembler import BatchAssembler
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from runspine.wire.v1.runner_pb2 import AlgoInfo, Param, RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, TRAIN, Evaluation, RunSpec, Value, WarmStart
from runspine.wire.v1.telemetry_pb2 import STDOUT, Batch, EvaluationBatch, Score

RETURNS = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60)
DIGEST = "ab" * 32


# Figures


@settings(max_examples=60)
@given(RETURNS)
def test_the_figures_of_a_batch_are_those_of_numpy(returns: list[float]) -> None:
    received = figures_of(returns)
    expected = [np.mean(returns), np.min(returns), np.max(returns), np.median(returns), np.std(returns)]
    assert list(received) == pytest.approx(expected, rel=1e-9, abs=1e-6)


@settings(max_examples=60)
@given(st.lists(RETURNS, min_size=1, max_size=8))
def test_batches_added_up_are_as_one_large_batch(batches: list[list[float]]) -> None:
    running = Running()
    for returns in batches:
        running.add(returns)
    whole = [value for returns in batches for value in returns]
    assert (running.count, running.batches) == (len(whole), len(batches))
    assert (running.mean, running.std) == pytest.approx((np.mean(whole), np.std(whole)), rel=1e-6, abs=1e-3)
    assert (running.minimum, running.maximum) == (min(whole), max(whole))


def test_what_is_not_a_number_spoils_the_figures_and_nothing_else() -> None:
    assert all(map(math.isnan, figures_of([1.0, math.nan, 3.0])))
    received = figures_of([1.0, math.inf])
    assert (received.mean, received.minimum, received.maximum) == (math.inf, 1.0, math.inf)
    assert all(map(math.isnan, interval_of([1.0, math.nan])))


def test_the_interval_contains_the_true_mean_as_often_as_its_confidence_level() -> None:
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(100):
        low, high = interval_of(rng.exponential(10.0, 60).tolist())
        hits += low <= 10.0 <= high
    assert 85 <= hits <= 100
    assert interval_of([5.0] * 9) == (5.0, 5.0)
    assert interval_of([1.0, 2.0, 9.0]) == interval_of([1.0, 2.0, 9.0])


# A line of the protocol, on its way


def recorded(*lines: dict[str, Any]) -> tuple[BatchAssembler, list[Score]]:
    recording = BatchAssembler("run", 1, RunSpec())
    for line in lines:
        recording.take(json.dumps(line).encode(), STDOUT, 5_000_000)
    batches = [Batch.FromString(record.payload) for record in recording.cut(6_000_000, final=True)]
    return recording, [score for batch in batches for score in batch.evaluations.scores]


def line(*returns: float, **more: Any) -> dict[str, Any]:
    return {"type": "evaluation", "returns": list(returns), "digest": DIGEST, "env_id": "CartPole-v1", **more}


def test_an_evaluation_line_becomes_a_score_with_its_figures() -> None:
    recording, (score,) = recorded(
        line(1, 2, 6, lengths=[3, 4, 5], seconds=1.5, deterministic=True, seed=7, t=2.0)
    )
    assert (score.mean, score.median, score.minimum, score.maximum) == (3.0, 2.0, 1.0, 6.0)
    assert score.std == pytest.approx(np.std([1, 2, 6]))
    assert (list(score.lengths), score.seed, score.seconds, score.at) == ([3, 4, 5], 7, 1.5, 2_000_000)
    received = recording.progress(1).evaluation
    assert (received.digest, received.env, received.episodes, received.mean, received.deterministic) == (
        DIGEST,
        "CartPole-v1",
        3,
        3.0,
        True,
    )
    assert recording.counts.malformed == 0


def test_the_runs_own_line_adds_up_the_batches_of_one_policy() -> None:
    recording, scores = recorded(line(1, 3), line(5, 7), line(100, digest="cd" * 32))
    assert len(scores) == 3
    assert recording.progress(1).evaluation.mean == 100
    recording, _ = recorded(line(1, 3), line(5, 7))
    assert (recording.progress(1).evaluation.mean, recording.progress(1).evaluation.batches) == (4, 2)
    assert not BatchAssembler("run", 1, RunSpec()).progress(1).HasField("evaluation")


@pytest.mark.parametrize(
    "broken",
    [
        {"type": "evaluation"},
        line(),
        line(1.0, lengths=[1, 2]),
        {**line(1.0), "returns": "many"},
        {**line(1.0), "returns": [None]},
        line(1.0, seed=-1),
        line(1.0, lengths=[-3]),
        line(*([1.0] * 40_000)),
    ],
)
def test_a_line_that_is_no_evaluation_is_kept_as_a_log_line(broken: dict[str, Any]) -> None:
    recording, scores = recorded(broken)
    assert scores == []
    assert (recording.counts.malformed, recording.counts.log_lines > 0) == (1, True)


SCORES = st.builds(
    Score,
    batch=st.integers(0, 99),
    digest=st.text(max_size=5),
    env_id=st.text(max_size=5),
    returns=st.lists(st.floats(), max_size=5),
    lengths=st.lists(st.integers(0, 2**32 - 1), max_size=5),
    mean=st.floats(),
    at=st.integers(0, 2**62),
    deterministic=st.booleans(),
)


@settings(max_examples=60)
@given(st.lists(st.lists(SCORES, min_size=1, max_size=3), min_size=1, max_size=5))
def test_scores_come_back_from_the_archive_to_the_last_bit(groups: list[list[Score]]) -> None:
    arrivals = [
        Arrival(n + 1, Batch(attempt=1 + n % 2, evaluations=EvaluationBatch(scores=scores)))
        for n, scores in enumerate(groups)
    ]
    assert {batch_kind(arrival.batch) for arrival in arrivals} == {EVALUATIONS}
    halves = [arrivals[: len(arrivals) // 2 + 1], arrivals[len(arrivals) // 2 + 1 :]]
    made = [one for half in halves if half for one in make_segments("run", EVALUATIONS, half, {})]
    tables = [parquet.from_bytes(one.objects[one.segment.key]) for one in made]
    joined = join_segments([one.segment for one in made], tables)
    table = parquet.from_bytes(joined.objects[joined.segment.key])
    back = list(arrivals_of(EVALUATIONS, table))
    assert [a.position for a in back] == [a.position for a in arrivals]
    assert [a.batch.evaluations.SerializeToString(deterministic=True) for a in back] == [
        a.batch.evaluations.SerializeToString(deterministic=True) for a in arrivals
    ]
    assert set(tables_of(EVALUATIONS, arrivals, {})) == {""}


def test_an_attempt_that_began_again_hides_the_scores_of_the_one_before() -> None:
    arrival = Arrival(1, Batch(attempt=1, evaluations=EvaluationBatch(scores=[Score(returns=[1.0])])))
    assert visible_part(arrival, {}) is arrival
    assert visible_part(arrival, {1: -1}) is None


# What may be asked for

RUNNERS = {
    "builtin": RunnerInfo(
        name="builtin",
        modes=[TRAIN, EVALUATE],
        algos=[AlgoInfo(name="ppo", params=[Param(name="x", required=True)])],
    ),
    "script": RunnerInfo(name="script", modes=[TRAIN], takes_command=True),
}


def asked(runner: str = "builtin", **fields: Any) -> RunSpec:
    fields.setdefault("evaluation", Evaluation(digest=DIGEST))
    return RunSpec(runner=runner, env="CartPole-v1", mode=EVALUATE, **fields)


def found_problems(spec: RunSpec) -> dict[str, str]:
    return {violation.field: violation.message for violation in violations(spec, RUNNERS)}


def test_an_evaluation_needs_no_parameters_and_any_algorithm_will_do() -> None:
    spec = asked(algo="c51")
    assert found_problems(spec) == {}
    full = with_defaults(spec, RUNNERS)
    assert (full.evaluation.episodes, full.evaluation.batches, dict(full.params)) == (50, 1, {})


def test_what_an_evaluation_lacks_or_has_too_much_is_named() -> None:
    assert (
        "not a SHA-256"
        in found_problems(asked(evaluation=Evaluation(digest="abc")))["spec.evaluation.digest"]
    )
    assert (
        "10000"
        in found_problems(asked(evaluation=Evaluation(digest=DIGEST, episodes=20_000)))[
            "spec.evaluation.episodes"
        ]
    )
    assert (
        "26"
        in found_problems(asked(evaluation=Evaluation(digest=DIGEST, run_id="x")))["spec.evaluation.run_id"]
    )
    for name in ("../x", "a\x00", "n" * 300):
        assert "spec.evaluation.name" in found_problems(
            asked(evaluation=Evaluation(digest=DIGEST, name=name))
        )
    assert "spec.params" in found_problems(asked(params={"gamma": Value(number=0.9)}))
    assert "spec.warm_start" in found_problems(
        asked(warm_start=WarmStart(run_id="01JCZW9T3N5Q8R7V2K4M6P0XYB"))
    )
    assert "cannot evaluate; it can: train" in found_problems(asked("script"))["spec.mode"]
    trains = RunSpec(runner="script", command=["true"], evaluation=Evaluation(digest=DIGEST))
    assert "set mode: evaluate" in found_problems(trains)["spec.evaluation"]


def test_the_command_contains_every_option() -> None:
    wanted = Evaluation(digest=DIGEST, episodes=7, batches=2, repeat=True, stochastic=True, video_frames=30)
    spec = asked(evaluation=wanted, seed=3, env_kwargs={"g": Value(number=9.8)})
    words = command("python", spec)
    assert words[:3] == ["python", "-m", "runspine.trainers.evaluation.evaluator"]
    assert " ".join(words[3:]) == (
        f'--digest {DIGEST} --env-id CartPole-v1 --env-kwargs {{"g": 9.8}} --seed 3 --episodes 7 --batches 2 '
        "--repeat --stochastic --video-frames 30"
    )


# Which one is meant, and where it stands


def made(step: int, attempt: int = 1, mean: float | None = None) -> ArtifactProduced:
    meta = {} if mean is None else {"return_mean": Value(number=mean)}
    return ArtifactProduced(
        kind="checkpoint", step=step, attempt=attempt, digest=f"{step}-{attempt}", meta=meta
    )


def test_best_latest_and_a_step_choose_among_a_runs_checkpoints() -> None:
    several = [made(10, mean=5.0), made(30, mean=2.0), made(20, mean=9.0), made(20, 2, mean=math.nan)]
    assert choose(several, "latest", "r").step == 30
    assert choose(several, "best", "r").digest == "20-1"
    assert choose(several, "step-20", "r").attempt == 2
    with pytest.raises(RunNotFoundError, match="it has: step-10, step-20, step-20, step-30"):
        choose(several, "step-7", "r")
    with pytest.raises(RunNotFoundError, match="use r:latest"):
        choose([made(1)], "best", "r")


def entry(digest: str, *returns: float, kwargs: str = "{}") -> LeaderboardEntry:
    found = LeaderboardEntry(digest, "CartPole-v1", kwargs, True)
    found.add(Score(returns=returns, seed=1))
    return found


def test_a_board_ranks_by_mean_and_marks_ties() -> None:
    boards = ranked([entry("bad", 1, 2, 1), entry("good", 90, 110, 100), entry("near", 80, 120, 91)], 10)
    ((name, places),) = boards
    assert name == "CartPole-v1"
    assert [(place.entry.digest, place.tied) for place in places] == [
        ("good", False),
        ("near", True),
        ("bad", False),
    ]
    other = ranked([entry("a", 1.0), entry("b", 2.0, kwargs='{"g": 1}'), entry("c", math.nan)], 10)
    assert [(name, [p.entry.digest for p in places]) for name, places in other] == [
        ("CartPole-v1", ["a", "c"]),
        ('CartPole-v1 {"g": 1}', ["b"]),
    ]


def test_an_episode_that_was_measured_twice_counts_once() -> None:
    found = entry("x", 1.0, 2.0)
    found.add(Score(returns=[1.0, 2.0], seed=1))
    found.add(Score(returns=[3.0, 4.0], seed=1, batch=1))
    assert found.returns == [1.0, 2.0, 3.0, 4.0]

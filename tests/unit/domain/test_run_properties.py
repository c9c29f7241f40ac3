"""What must hold of a run whatever is asked, in whatever order, however often."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.domain.run import ENDED, RunRefusedError, decide, evolve, fold
from runspine.domain.run.attempts import got_further
from runspine.domain.run.commands import (
    Cancel,
    ComeBack,
    Command,
    GiveUp,
    GoStale,
    RecordExit,
    RecordPlacementEnd,
    RecordStart,
    SetLabels,
    SetPriority,
    Submit,
)
from runspine.domain.run.decide import MAX_LOSSES
from runspine.domain.run.evolve import FOLDED
from runspine.wire.v1.facts_pb2 import (
    CANCELLED_BY_OPERATOR,
    FINISHED,
    HANDED_BACK,
    NODE_FAILED,
    PREEMPTED,
    TIME_LIMIT,
    ArtifactProduced,
    AttemptExited,
    EngineCause,
    EngineStop,
    Fact,
    Outcome,
    ResumedFrom,
)
from runspine.wire.v1.run_pb2 import (
    CANCELLED,
    COMPLETED,
    FAILED,
    PHASE_UNSPECIFIED,
    QUEUED,
    Attempt,
    Phase,
    Run,
)
from runspine.wire.v1.spec_pb2 import Retry, RunSpec

ENDINGS = {"run_completed", "run_failed", "run_cancelled"}
numbers = st.integers(1, 5)
times = st.integers(0, 10**6)
exits = st.builds(
    AttemptExited,
    attempt=numbers,
    worker_id=st.sampled_from(["w1", "w2"]),
    outcome=st.sampled_from([o for o in Outcome.values() if o]),
    exit_code=st.sampled_from([0, 1, 3]),
    signal=st.sampled_from([0, 0, 9]),
    reason=st.sampled_from(["", "boom"]),
)
specs = st.builds(
    RunSpec,
    runner=st.just("script"),
    retry=st.builds(Retry, max_attempts=st.integers(0, 4), backoff_seconds=st.sampled_from([0.0, 1.5])),
)
commands = st.one_of(
    st.builds(Submit, at=times, run_id=st.just("r"), name=st.just("n"), spec=specs),
    st.builds(Cancel, at=times),
    st.builds(RecordStart, at=times, attempt=numbers, worker_id=st.sampled_from(["w1", "w2"])),
    st.builds(RecordExit, at=times, exited=exits, ended_at=times),
    st.builds(GoStale, at=times, attempt=numbers, last_heard=times),
    st.builds(ComeBack, at=times, attempt=numbers),
    st.builds(GiveUp, at=times, attempt=numbers, reason=st.just("silent"), got_further=st.booleans()),
    st.builds(
        RecordPlacementEnd,
        at=times,
        attempt=numbers,
        stop=st.builds(
            EngineStop, cause=st.sampled_from(list(EngineCause.values())), reason=st.just("slurm")
        ),
        got_further=st.booleans(),
    ),
    st.builds(SetPriority, at=times, priority=st.integers(0, 100)),
    st.builds(SetLabels, at=times, labels=st.dictionaries(st.sampled_from("ab"), st.sampled_from(["", "x"]))),
)
lives = st.tuples(specs, st.lists(commands, max_size=40)).map(
    lambda life: [Submit(at=0, run_id="r", name="n", spec=life[0]), *life[1]]
)


def kind(fact: Fact) -> str:
    return fact.WhichOneof("kind") or ""


def live(life: list[Command]) -> tuple[Run, list[Fact]]:
    """Ask everything in turn, as the orchestrator would."""
    run, facts = Run(), []
    for command in life:
        try:
            news = decide(run, command)
        except RunRefusedError:
            continue
        facts += news
        run = fold(news, run)
    return run, facts


@given(lives)
def test_a_run_ends_at_most_once(life: list[Command]) -> None:
    run, facts = live(life)
    endings = [kind(f) for f in facts if kind(f) in ENDINGS]
    assert len(endings) <= 1
    assert bool(endings) == (run.phase in ENDED)


@given(lives)
def test_a_command_delivered_twice_changes_nothing(life: list[Command]) -> None:
    doubled = [command for command in life for _ in (1, 2)]
    assert live(doubled)[1] == live(life)[1]


@given(lives)
def test_folding_step_by_step_or_at_once_gives_the_same(life: list[Command]) -> None:
    run, facts = live(life)
    stepwise = Run()
    for fact in facts:
        before = stepwise.SerializeToString(deterministic=True)
        after = evolve(stepwise, fact)
        assert stepwise.SerializeToString(deterministic=True) == before, "evolve must not change its argument"
        stepwise = after
    assert stepwise == run == fold(facts)


@given(st.lists(st.tuples(commands, commands), max_size=30))
def test_fold_never_raises_on_what_decide_emitted_in_any_order(pairs: list[tuple[Command, Command]]) -> None:
    facts: list[Fact] = []
    for first, second in pairs:
        for command in (first, second):
            try:
                facts += decide(fold(facts), command)
            except RunRefusedError:
                continue
    fold(reversed(facts))
    assert fold(facts).phase in Phase.values()


@given(lives, exits, times)
def test_a_paused_workers_late_word_changes_nothing(
    life: list[Command], late: AttemptExited, at: int
) -> None:
    run, _ = live(life)
    if run.phase == PHASE_UNSPECIFIED:
        return
    late.attempt = max(1, run.attempt - 1)
    if late.attempt == run.attempt and run.phase not in ENDED:
        return
    assert decide(run, RecordExit(at=at, exited=late, ended_at=at)) == []
    assert decide(run, RecordStart(at=at, attempt=late.attempt, worker_id="w9")) in (
        [],
        decide(run, RecordStart(at, run.attempt, "w9")),
    )
    for command in (GoStale(at, late.attempt, 0), ComeBack(at, late.attempt), GiveUp(at, late.attempt, "x")):
        if late.attempt != run.attempt or run.phase in ENDED:
            assert decide(run, command) == []


@given(lives, commands)
def test_a_run_that_has_ended_stays_as_it_ended(life: list[Command], command: Command) -> None:
    run, _ = live(life)
    if run.phase not in ENDED or isinstance(command, SetLabels):
        return
    try:
        facts = decide(run, command)
    except RunRefusedError:
        return
    assert facts == []


@given(lives)
def test_attempts_only_go_up_and_each_waits_before_it_starts(life: list[Command]) -> None:
    _, facts = live(life)
    queued = 0
    for fact in facts:
        if kind(fact) in ("run_queued", "run_requeued"):
            attempt = getattr(fact, kind(fact)).attempt
            assert attempt == queued + 1
            queued = attempt
        elif kind(fact) == "run_started":
            assert fact.run_started.attempt == queued


def test_every_fact_of_the_runs_stream_is_folded() -> None:
    of_runs = {f.name for f in Fact.DESCRIPTOR.oneofs_by_name["kind"].fields if f.name.startswith("run_")}
    assert of_runs == FOLDED


def test_an_exit_code_of_zero_completes_and_any_other_fails() -> None:
    submit = Submit(at=0, run_id="r", name="n", spec=RunSpec(runner="script"))
    for code, phase in ((0, COMPLETED), (3, FAILED)):
        exited = AttemptExited(attempt=1, worker_id="w", outcome=Outcome.Value("EXITED"), exit_code=code)  # type: ignore[arg-type]
        run, _ = live([submit, RecordStart(1, 1, "w"), RecordExit(2, exited, 2)])
        assert run.phase == phase


def test_a_failing_trainer_is_retried_as_often_as_the_spec_grants() -> None:
    spec = RunSpec(runner="script", retry=Retry(max_attempts=3, backoff_seconds=2))
    life: list[Command] = [Submit(at=0, run_id="r", name="n", spec=spec)]
    for attempt in (1, 2, 3):
        exited = AttemptExited(attempt=attempt, outcome=Outcome.Value("EXITED"), exit_code=1, reason="boom")  # type: ignore[arg-type]
        life += [
            RecordStart(10 * attempt, attempt, "w"),
            RecordExit(10 * attempt + 1, exited, 10 * attempt + 1),
        ]
    run, facts = live(life)
    waits = [f.run_requeued.not_before - f.at for f in facts if kind(f) == "run_requeued"]
    assert run.phase == FAILED
    assert run.failures == 3
    assert waits == [2_000_000, 4_000_000]


def test_a_lost_worker_does_not_use_up_the_trainers_attempts() -> None:
    lost = AttemptExited(attempt=1, outcome=Outcome.Value("LOST"), reason="restarted")  # type: ignore[arg-type]
    submit = Submit(at=0, run_id="r", name="n", spec=RunSpec(runner="script"))
    run, _ = live([submit, RecordStart(1, 1, "w"), RecordExit(2, lost, 2)])
    assert (Phase.Name(run.phase), run.attempt, run.losses, run.failures) == ("QUEUED", 2, 1, 0)


def test_a_run_handed_back_by_a_stopped_worker_is_neither_lost_nor_failed() -> None:
    """However often: a deployment every day is not a run that brings its workers down."""
    submit = Submit(at=0, run_id="r", name="n", spec=RunSpec(runner="script"))
    life: list[Command] = [submit]
    for attempt in range(1, 31):
        back = AttemptExited(attempt=attempt, outcome=HANDED_BACK, reason="the worker is shutting down")
        life += [RecordStart(10 * attempt, attempt, "w"), RecordExit(10 * attempt + 1, back, 10 * attempt)]
    run, facts = live(life)
    assert (run.phase, run.attempt, run.hand_backs, run.losses, run.failures) == (QUEUED, 31, 30, 0, 0)
    assert not any(fact.run_requeued.lost for fact in facts)


def test_an_ending_is_dated_by_its_worker_and_a_requeue_by_the_decision() -> None:
    """A worker whose clock is a day ahead neither puts its runs last in the queue nor to rest for a day."""
    day = 86_400_000_000
    for outcome, retry in (("LOST", Retry()), ("EXITED", Retry(max_attempts=2, backoff_seconds=1))):
        exited = AttemptExited(attempt=1, outcome=Outcome.Value(outcome), exit_code=1, reason="boom")  # type: ignore[arg-type]
        submit = Submit(at=0, run_id="r", name="n", spec=RunSpec(runner="script", retry=retry))
        run, _ = live([submit, RecordStart(day, 1, "w"), RecordExit(5, exited, ended_at=day)])
        assert run.queued_at == 5
        assert run.not_before <= 5 + 1_000_000
    finished = AttemptExited(attempt=1, outcome=Outcome.Value("EXITED"))  # type: ignore[arg-type]
    run, _ = live([submit, RecordStart(1, 1, "w"), RecordExit(50, finished, ended_at=5)])
    assert run.ended_at == 5


def test_a_trainer_that_was_stopped_because_it_had_finished_completes_its_run() -> None:
    spec = RunSpec(runner="script", max_episodes=7, retry=Retry(max_attempts=3))
    submit = Submit(at=0, run_id="r", name="n", spec=spec)
    for signal in (0, 15):
        reached = AttemptExited(
            attempt=1, outcome=FINISHED, exit_code=143, signal=signal, reason="max_episodes reached: 7"
        )
        run, _ = live([submit, RecordStart(1, 1, "w"), RecordExit(2, reached, ended_at=2)])
        assert (run.phase, run.reason, run.failures) == (COMPLETED, "max_episodes reached: 7", 0)


def lost_again_and_again(times: int, got_further: Callable[[int], bool]) -> Run:
    life: list[Command] = [Submit(at=0, run_id="r", name="n", spec=RunSpec(runner="script"))]
    for attempt in range(1, times + 1):
        lost = AttemptExited(attempt=attempt, outcome=Outcome.Value("LOST"), reason="restarted")  # type: ignore[arg-type]
        at = 10 * attempt
        life += [RecordStart(at, attempt, "w"), RecordExit(at + 1, lost, at + 1, got_further(attempt))]
    run, _ = live(life)
    return run


def test_a_run_that_takes_its_workers_down_is_given_up() -> None:
    run = lost_again_and_again(20, lambda attempt: attempt == 3)
    assert run.phase == FAILED
    assert run.attempt == 3 + 1 + MAX_LOSSES
    assert run.reason == "lost 11 times with its worker without a new checkpoint, last: restarted"


def test_a_run_that_gets_further_each_time_is_never_given_up() -> None:
    """As on machines that are taken away every few hours, for weeks."""
    run = lost_again_and_again(200, lambda attempt: attempt % 5 == 0)
    assert (run.phase, run.attempt, run.losses, run.fruitless_losses) == (QUEUED, 201, 200, 0)


@pytest.mark.parametrize(
    ("began", "left", "further"),
    [
        (None, [], False),
        (None, [5], True),
        (ResumedFrom(run_id="r", step=5), [5], False),
        (ResumedFrom(run_id="r", step=5), [5, 9], True),
        (ResumedFrom(run_id="another", step=99), [5], True),
    ],
)
def test_an_attempt_got_further_when_it_left_a_later_checkpoint(
    began: ResumedFrom | None, left: list[int], further: bool
) -> None:
    attempt = Attempt(
        number=2,
        resumed_from=began,
        artifacts=[ArtifactProduced(attempt=2, kind="checkpoint", step=step) for step in left],
    )
    attempt.artifacts.add(attempt=2, kind="video", step=100)
    assert got_further("r", attempt) is further


def test_cancel_of_a_stale_run_holds_even_if_its_worker_never_comes_back() -> None:
    submit = Submit(at=0, run_id="r", name="n", spec=RunSpec(runner="script"))
    run, _ = live([submit, RecordStart(1, 1, "w"), GoStale(2, 1, 1), Cancel(3), GiveUp(4, 1, "silent")])
    assert run.phase == CANCELLED


@pytest.mark.parametrize(
    ("cause", "further", "phase"),
    [
        (CANCELLED_BY_OPERATOR, True, CANCELLED),
        (PREEMPTED, False, QUEUED),
        (TIME_LIMIT, True, QUEUED),
        # Another attempt would come as far as this one.
        (TIME_LIMIT, False, FAILED),
    ],
)
def test_what_follows_when_an_engine_ends_a_worker_depends_on_why(
    cause: EngineCause, further: bool, phase: Phase
) -> None:
    stop = EngineStop(engine="slurm", placement="7", cause=cause, reason="Slurm job 7 was ended")
    begun: list[Command] = [Submit(0, "r", "n", RunSpec()), RecordStart(0, 1, "w")]
    exited = AttemptExited(attempt=1, worker_id="w", outcome=HANDED_BACK, engine_stop=stop)
    for word in (RecordExit(1, exited, 1, further), RecordPlacementEnd(1, 1, stop, further)):
        run, _ = live([*begun, word])
        assert run.phase == phase
        assert run.reason.startswith("Slurm job 7 was ended")


def test_a_failed_node_is_a_reason_and_no_end_before_the_lease_has_lapsed() -> None:
    stop = EngineStop(cause=NODE_FAILED)
    run, _ = live([Submit(0, "r", "n", RunSpec()), RecordStart(0, 1, "w"), RecordPlacementEnd(1, 1, stop)])
    assert Phase.Name(run.phase) == "RUNNING"


def test_a_run_whose_waiting_placement_was_cancelled_by_an_operator_is_cancelled() -> None:
    for cause, phase in ((CANCELLED_BY_OPERATOR, CANCELLED), (NODE_FAILED, QUEUED)):
        run, _ = live([Submit(0, "r", "n", RunSpec()), RecordPlacementEnd(1, 1, EngineStop(cause=cause))])
        assert run.phase == phase

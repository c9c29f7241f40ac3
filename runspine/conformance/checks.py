"""The conformance checks, one function each: returns what was observed, or raises NotConformingError."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import PurePosixPath

import psutil

from runspine.conformance.context import LONG_RUN_FACTOR, CheckContext, ending, processes_of
from runspine.conformance.dataset import provide_dataset
from runspine.conformance.result import NotClaimedError, NotConformingError
from runspine.domain.artifact_kinds import CHECKPOINT
from runspine.domain.runner_abilities import can_warm_start
from runspine.errors import InvalidError, RefusedError
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.spec_pb2 import EVALUATE, Evaluation, RunSpec, Value
from runspine.wire.v1.trainer_pb2 import GetResponse

UNKNOWN_ENV = "NoSuchEnv-v0"
UNKNOWN_PARAMETER = "no_such_parameter"
EPISODES = 3


def describe(context: CheckContext) -> str:
    """The runner describes itself, and is ready."""
    info = context.info
    if info.not_ready:
        raise NotConformingError(f"it is not ready: {info.not_ready}", "follow the reason, and check again")
    provide_dataset(context)
    if not info.summary or not info.modes:
        raise NotConformingError(
            "its info lacks a summary or a mode", "fill RunnerInfo.summary and RunnerInfo.modes"
        )
    names = [param.name for param in info.params]
    for algo in info.algos:
        twice = [name for name, n in Counter([*names, *(p.name for p in algo.params)]).items() if n > 1]
        if twice:
            raise NotConformingError(
                f"params {', '.join(twice)} are described twice ({algo.name})", "describe each once"
            )
    if not context.example.total_steps:
        raise NotConformingError(
            "its example has no total_steps", "set total_steps in RunnerInfo.example or --spec"
        )
    try:
        context.client.validate(context.spec())
    except InvalidError as error:
        why = "; ".join(map(str, error.violations)) or str(error)
        raise NotConformingError(
            f"its own example is refused: {why}", "correct RunnerInfo.example or --spec"
        ) from error
    return f"{len(info.algos)} algorithms, {len(info.params) + sum(len(a.params) for a in info.algos)} params"


def refuse(context: CheckContext) -> str:
    """Parameters outside the schema are refused before anything starts."""
    if context.info.open_params:
        raise NotClaimedError("it passes on any parameter")
    spec = context.spec()
    spec.params[UNKNOWN_PARAMETER].CopyFrom(Value(integer=1))
    try:
        context.client.validate(spec)
    except InvalidError as error:
        if any(UNKNOWN_PARAMETER in violation.field for violation in error.violations):
            return "an unknown parameter is refused by name"
        raise NotConformingError(
            f"refused, but for another reason: {error}", "correct RunnerInfo.example"
        ) from error
    raise NotConformingError(
        "an unknown parameter is accepted", "list every parameter, or set RunnerInfo.open_params"
    )


def launch(context: CheckContext) -> str:
    """Two copies of the example run to completion at the same time."""
    began = time.monotonic()
    pair = [context.submit(context.spec()) for _ in range(2)]
    ends = [context.wait_for_end(run_id) for run_id in pair]
    for run in ends:
        if run.phase != Phase.COMPLETED:
            raise NotConformingError(
                f"the example {ending(run)}", "`runspine train` with it shows what happens"
            )
    context.completed = ends[0]
    return f"two at once completed in {time.monotonic() - began:.1f} s"


def stream(context: CheckContext) -> str:
    """Steps, episodes and metrics arrive, each once."""
    run = completed_run(context)
    counts, reader = run.counts, TelemetryClient(context.client)
    if counts.malformed:
        raise NotConformingError(
            f"{counts.malformed} lines are malformed", "compare them with docs/protocol.md"
        )
    in_an_env = not context.info.datasets
    if in_an_env and not (counts.steps and counts.episodes):
        seen = f"{counts.steps} steps and {counts.episodes} episodes were reported"
        raise NotConformingError(seen, "wrap the env with runspine.wrap, or print step and episode lines")
    if not counts.metrics:
        raise NotConformingError(
            "no metric was reported", "print metric lines, or runspine.log({...}, step=…)"
        )
    stored = Counter(
        (block.slot, block.agent_id, block.episode_id, block.first_step + i)
        for answer in reader.batches(run.id, "steps")
        for block in answer.blocks
        for i in range(block.count)
    )
    if len(stored) != counts.steps or any(n > 1 for n in stored.values()):
        seen = f"{counts.steps} steps were reported, and {len(stored)} different ones stored"
        raise NotConformingError(
            seen, "give each episode of an attempt an id of its own, and number its steps from 0"
        )
    names = [series.name for series in reader.series(run.id)]
    return f"{counts.steps:,} steps, {counts.episodes:,} episodes, {len(names)} series"


def cancel(context: CheckContext) -> str:
    """A long run can be cancelled, and none of its processes remains."""
    run_id = context.submit(context.spec(times=LONG_RUN_FACTOR))
    context.wait_until_busy(run_id)
    held = processes_of(run_id)
    context.client.cancel(run_id, "conformance")
    began = time.monotonic()
    run = context.wait_for_end(run_id)
    if run.phase != Phase.CANCELLED:
        raise NotConformingError(
            f"a cancelled run {ending(run)}", "end soon after SIGTERM, with any exit code"
        )
    _, left = psutil.wait_procs(held, timeout=5)
    if left:
        raise NotConformingError(
            f"{len(left)} of its processes remain", "start children in the trainer's own session"
        )
    return f"gone {time.monotonic() - began:.1f} s after the request, {len(held)} processes"


def fail(context: CheckContext) -> str:
    """Invalid input fails with a reason that names it, and a crash fails the run."""
    words = _bad_input(context)
    run_id = context.submit(context.spec(times=LONG_RUN_FACTOR))
    context.wait_until_busy(run_id)
    _kill(run_id)
    run = context.wait_for_end(run_id)
    if run.phase != Phase.FAILED or "SIGKILL" not in run.reason:
        raise NotConformingError(
            f"a killed trainer's run {ending(run)}", "the process that is started must be the trainer"
        )
    return f"{words}; a crash: {run.reason[:60]}"


def _bad_input(context: CheckContext) -> str:
    spec, what = context.spec(), UNKNOWN_ENV
    if context.info.takes_command:
        del spec.command[:]
        spec.command.append(what)
    elif context.example.env:
        spec.env = what
    else:
        return "no env to test"
    try:
        run = context.wait_for_end(context.submit(spec))
    except (InvalidError, RefusedError) as error:
        reason = str(error)
    else:
        reason = run.reason
        if run.phase != Phase.FAILED:
            raise NotConformingError(
                f"a run with {what} {ending(run)}", "raise NotReadyError in launch, or exit with a code"
            )
    if what not in reason:
        raise NotConformingError(
            f"the reason does not name {what}: {reason[:80]}",
            "state in NotReadyError what is wrong with which value",
        )
    return "bad input is named"


def resume(context: CheckContext) -> str:
    """After SIGKILL the run resumes from its newest checkpoint."""
    if not context.info.resumes:
        raise NotClaimedError("not supported")
    spec = context.spec(times=20)
    spec.retry.max_attempts = 2
    run_id = context.submit(spec)
    saved = context.wait_until(run_id, lambda answer: checkpoint_of(answer, 1), "it announced a checkpoint")
    _kill(run_id)

    def again(answer: GetResponse) -> GetResponse | None:
        if answer.run.attempt < 2 or len(answer.attempts) < 2:
            return None
        source = answer.attempts[1].resumed_from
        return answer if source.step and answer.progress.step > source.step else None

    answer = context.wait_until(run_id, again, f"attempt 2 resumed from step {saved.step:,} or later")
    source = answer.attempts[1].resumed_from
    context.clean_up()
    early = early_step(context, run_id, attempt=2)
    if early is not None and early < source.step:
        seen = f"attempt 2 got the checkpoint of step {source.step:,} but began at the start (step {early:,})"
        raise NotConformingError(
            seen, "begin from RUNSPINE_RESUME, at its step, when RUNSPINE_RESUME_KIND is resume"
        )
    return f"resumed from step {source.step:,} to {answer.progress.step:,}"


def early_step(context: CheckContext, run_id: str, attempt: int) -> int | None:
    """An early step of an attempt: past single metrics at step 0, before it could have caught up."""
    steps = sorted(
        step
        for answer in TelemetryClient(context.client).batches(run_id, "metrics")
        if answer.attempt == attempt
        for block in answer.blocks
        for step in block.steps
    )
    return steps[len(steps) // 10] if steps else None


def warm_start(context: CheckContext) -> str:
    """A run can start from the checkpoint of another run."""
    if not can_warm_start(context.info, context.info.example.algo):
        raise NotClaimedError("not supported")
    source = completed_run(context)
    spec = context.spec()
    spec.warm_start.run_id = source.id
    run_id = context.submit(spec)
    run = context.wait_for_end(run_id)
    if run.phase != Phase.COMPLETED:
        raise NotConformingError(
            f"a warm-started run {ending(run)}", "take the weights of RUNSPINE_RESUME and begin at step 0"
        )
    taken = context.client.get(run_id).attempts[-1].resumed_from
    if taken.run_id != source.id:
        raise NotConformingError(
            "the run does not state its source checkpoint", "announce a checkpoint at the end of a run"
        )
    return f"started from the checkpoint of step {taken.step:,}"


def evaluate(context: CheckContext) -> str:
    """Its checkpoints can be evaluated."""
    if EVALUATE not in context.info.modes:
        raise NotClaimedError("not supported")
    source = completed_run(context)
    found = checkpoint_of(context.client.get(source.id), 1)
    if found is None:
        raise NotConformingError(
            "the run left no checkpoint", "announce one at the end: run.checkpoint(path, step=…)"
        )
    example, name = context.example, PurePosixPath(found.name).name
    spec = RunSpec(
        runner=context.info.name,
        mode=EVALUATE,
        env=example.env,
        env_kwargs=example.env_kwargs,
        evaluation=Evaluation(digest=found.digest, run_id=source.id, name=name, episodes=EPISODES),
    )
    run_id = context.submit(spec)
    run = context.wait_for_end(run_id)
    if run.phase != Phase.COMPLETED:
        raise NotConformingError(
            f"an evaluation {ending(run)}", "read the checkpoint's format, or omit EVALUATE"
        )
    evaluation = context.client.get(run_id).progress.evaluation
    if evaluation.episodes != EPISODES:
        seen = f"{evaluation.episodes} episodes were evaluated instead of {EPISODES}"
        raise NotConformingError(seen, "print one evaluation line for each batch")
    return f"{evaluation.episodes} episodes, mean {evaluation.mean:.3g}"


def completed_run(context: CheckContext) -> Run:
    if context.completed is None:
        raise NotClaimedError("no run has completed")
    return context.completed


def checkpoint_of(answer: GetResponse, attempt: int) -> ArtifactProduced | None:
    """The newest checkpoint in S3."""
    found = [
        artifact
        for each in answer.attempts
        if each.number == attempt
        for artifact in each.artifacts
        if artifact.kind == CHECKPOINT
    ]
    return max(found, key=lambda artifact: artifact.step, default=None)


def _kill(run_id: str) -> None:
    processes = processes_of(run_id)
    if not processes:
        raise NotConformingError(
            "none of its processes carries RUNSPINE_RUN_ID", "pass the environment on to the trainer"
        )
    processes[0].kill()


# In this order; a failed essential check skips the rest.
CHECKS: dict[str, Callable[[CheckContext], str]] = {
    "describe": describe,
    "refuse": refuse,
    "launch": launch,
    "stream": stream,
    "cancel": cancel,
    "fail": fail,
    "resume": resume,
    "warm start": warm_start,
    "evaluate": evaluate,
}
ESSENTIAL = ("describe", "launch")

"""The promises, one function each: what was seen when it is kept, Broken when it is not."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import PurePosixPath

import psutil

from runspine.conformance.dataset import give_dataset
from runspine.conformance.result import Broken, NotClaimed
from runspine.conformance.stand import LONG, Stand, ending, processes_of
from runspine.errors import Invalid, Refused
from runspine.telemetry_reader import TelemetryReader
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.spec_pb2 import EVALUATE, Evaluation, RunSpec, Value
from runspine.wire.v1.trainer_pb2 import GetResponse

CHECKPOINT = "checkpoint"
NO_ENV = "NoSuchEnv-v0"
NO_NAME = "no_such_parameter"
EPISODES = 3


def describe(stand: Stand) -> str:
    """It says what it is, and is ready."""
    info = stand.info
    if info.not_ready:
        raise Broken(f"it is not ready: {info.not_ready}", "do what it says, and check again")
    give_dataset(stand)
    if not info.summary or not info.modes:
        raise Broken("its info lacks a summary or a mode", "fill RunnerInfo.summary and RunnerInfo.modes")
    names = [param.name for param in info.params]
    for algo in info.algos:
        twice = [name for name, n in Counter([*names, *(p.name for p in algo.params)]).items() if n > 1]
        if twice:
            raise Broken(f"params {', '.join(twice)} are described twice ({algo.name})", "describe each once")
    if not stand.example.total_steps:
        raise Broken(
            "its example does not say total_steps", "set total_steps in RunnerInfo.example or --spec"
        )
    try:
        stand.client.validate(stand.spec())
    except Invalid as error:
        why = "; ".join(map(str, error.violations)) or str(error)
        raise Broken(f"its own example is refused: {why}", "correct RunnerInfo.example or --spec") from error
    return f"{len(info.algos)} algorithms, {len(info.params) + sum(len(a.params) for a in info.algos)} params"


def refuse(stand: Stand) -> str:
    """What is not in its schema is refused before anything starts."""
    if stand.info.open_params:
        raise NotClaimed("it passes on any parameter")
    spec = stand.spec()
    spec.params[NO_NAME].CopyFrom(Value(integer=1))
    try:
        stand.client.validate(spec)
    except Invalid as error:
        if any(NO_NAME in violation.field for violation in error.violations):
            return "an unknown parameter is refused by name"
        raise Broken(f"refused, but for another reason: {error}", "correct RunnerInfo.example") from error
    raise Broken("an unknown parameter is accepted", "list every parameter, or set RunnerInfo.open_params")


def launch(stand: Stand) -> str:
    """Its example runs to the end, two of it at the same time."""
    began = time.monotonic()
    pair = [stand.submit(stand.spec()) for _ in range(2)]
    ends = [stand.end_of(run_id) for run_id in pair]
    for run in ends:
        if run.phase != Phase.COMPLETED:
            raise Broken(f"the example {ending(run)}", "`runspine train` with it shows what happens")
    stand.whole = ends[0]
    return f"two at once completed in {time.monotonic() - began:.1f} s"


def stream(stand: Stand) -> str:
    """What it says arrives: steps, episodes and metrics, each once."""
    run = whole_run(stand)
    counts, reader = run.counts, TelemetryReader(stand.client)
    if counts.malformed:
        raise Broken(f"{counts.malformed} lines are malformed", "compare them with docs/protocol.md")
    in_an_env = not stand.info.datasets
    if in_an_env and not (counts.steps and counts.episodes):
        seen = f"{counts.steps} steps and {counts.episodes} episodes were said"
        raise Broken(seen, "wrap the env with runspine.wrap, or say step and episode lines")
    if not counts.metrics:
        raise Broken("no metric was said", "say metric lines, or runspine.log({...}, step=…)")
    stored = Counter(
        (block.slot, block.agent_id, block.episode_id, block.first_step + i)
        for answer in reader.batches(run.id, "steps")
        for block in answer.blocks
        for i in range(block.count)
    )
    if len(stored) != counts.steps or any(n > 1 for n in stored.values()):
        seen = f"{counts.steps} steps were said, and {len(stored)} different ones stored"
        raise Broken(seen, "give each episode of an attempt an id of its own, and number its steps from 0")
    names = [series.name for series in reader.series(run.id)]
    return f"{counts.steps:,} steps, {counts.episodes:,} episodes, {len(names)} series"


def cancel(stand: Stand) -> str:
    """A long run stops when asked, and nothing of it is left."""
    run_id = stand.submit(stand.spec(times=LONG))
    stand.busy(run_id)
    held = processes_of(run_id)
    stand.client.cancel(run_id, "conformance")
    began = time.monotonic()
    run = stand.end_of(run_id)
    if run.phase != Phase.CANCELLED:
        raise Broken(f"a cancelled run {ending(run)}", "end soon after SIGTERM, with any exit code")
    _, left = psutil.wait_procs(held, timeout=5)
    if left:
        raise Broken(f"{len(left)} of its processes are left", "start children in the trainer's own session")
    return f"gone {time.monotonic() - began:.1f} s after the request, {len(held)} processes"


def fail(stand: Stand) -> str:
    """What cannot work fails with a reason that names it; so does a crash."""
    words = _bad_input(stand)
    run_id = stand.submit(stand.spec(times=LONG))
    stand.busy(run_id)
    _kill(run_id)
    run = stand.end_of(run_id)
    if run.phase != Phase.FAILED or "SIGKILL" not in run.reason:
        raise Broken(
            f"a killed trainer's run {ending(run)}", "the process that is started must be the trainer"
        )
    return f"{words}; a crash: {run.reason[:60]}"


def _bad_input(stand: Stand) -> str:
    spec, what = stand.spec(), NO_ENV
    if stand.info.takes_command:
        del spec.command[:]
        spec.command.append(what)
    elif stand.example.env:
        spec.env = what
    else:
        return "no env to get wrong"
    try:
        run = stand.end_of(stand.submit(spec))
    except (Invalid, Refused) as error:
        reason = str(error)
    else:
        reason = run.reason
        if run.phase != Phase.FAILED:
            raise Broken(f"a run with {what} {ending(run)}", "raise NotReady in launch, or exit with a code")
    if what not in reason:
        raise Broken(
            f"the reason does not name {what}: {reason[:80]}", "say in NotReady what is wrong with what"
        )
    return "bad input is named"


def resume(stand: Stand) -> str:
    """Killed with -9, it goes on from its newest checkpoint."""
    if not stand.info.resumes:
        raise NotClaimed("it does not claim to")
    spec = stand.spec(times=20)
    spec.retry.max_attempts = 2
    run_id = stand.submit(spec)
    saved = stand.until(run_id, lambda answer: checkpoint_of(answer, 1), "it announced a checkpoint")
    _kill(run_id)

    def again(answer: GetResponse) -> GetResponse | None:
        if answer.run.attempt < 2 or len(answer.attempts) < 2:
            return None
        source = answer.attempts[1].resumed_from
        return answer if source.step and answer.progress.step > source.step else None

    answer = stand.until(run_id, again, f"attempt 2 went on from step {saved.step:,} or later")
    source = answer.attempts[1].resumed_from
    stand.put_away()
    said = early_step(stand, run_id, attempt=2)
    if said is not None and said < source.step:
        seen = f"attempt 2 got the checkpoint of step {source.step:,} and began anew (it was at {said:,})"
        raise Broken(seen, "begin from RUNSPINE_RESUME, at its step, when RUNSPINE_RESUME_KIND is resume")
    return f"went on from step {source.step:,} to {answer.progress.step:,}"


def early_step(stand: Stand, run_id: str, attempt: int) -> int | None:
    """Of what an attempt has measured: past the odd word at step 0, and before it could have caught up."""
    steps = sorted(
        step
        for answer in TelemetryReader(stand.client).batches(run_id, "metrics")
        if answer.attempt == attempt
        for block in answer.blocks
        for step in block.steps
    )
    return steps[len(steps) // 10] if steps else None


def warm_start(stand: Stand) -> str:
    """It can begin with another run's checkpoint."""
    if not stand.info.warm_starts:
        raise NotClaimed("it does not claim to")
    source = whole_run(stand)
    spec = stand.spec()
    spec.warm_start.run_id = source.id
    run_id = stand.submit(spec)
    run = stand.end_of(run_id)
    if run.phase != Phase.COMPLETED:
        raise Broken(
            f"started warm, it {ending(run)}", "take the weights of RUNSPINE_RESUME and begin at step 0"
        )
    taken = stand.client.get(run_id).attempts[-1].resumed_from
    if taken.run_id != source.id:
        raise Broken("the run does not say what it began with", "announce a checkpoint at the end of a run")
    return f"began with the checkpoint of step {taken.step:,}"


def evaluate(stand: Stand) -> str:
    """Its checkpoints can be evaluated."""
    if EVALUATE not in stand.info.modes:
        raise NotClaimed("it does not claim to")
    source = whole_run(stand)
    found = checkpoint_of(stand.client.get(source.id), 1)
    if found is None:
        raise Broken("the run left no checkpoint", "announce one at the end: run.checkpoint(path, step=…)")
    example, name = stand.example, PurePosixPath(found.name).name
    spec = RunSpec(
        runner=stand.info.name,
        mode=EVALUATE,
        env=example.env,
        env_kwargs=example.env_kwargs,
        evaluation=Evaluation(digest=found.digest, run_id=source.id, name=name, episodes=EPISODES),
    )
    run_id = stand.submit(spec)
    run = stand.end_of(run_id)
    if run.phase != Phase.COMPLETED:
        raise Broken(f"an evaluation {ending(run)}", "read the checkpoint's format, or leave out EVALUATE")
    said = stand.client.get(run_id).progress.evaluation
    if said.episodes != EPISODES:
        seen = f"{said.episodes} episodes were evaluated instead of {EPISODES}"
        raise Broken(seen, "say one evaluation line for each batch")
    return f"{said.episodes} episodes, mean {said.mean:.3g}"


def whole_run(stand: Stand) -> Run:
    if stand.whole is None:
        raise NotClaimed("no run has completed")
    return stand.whole


def checkpoint_of(answer: GetResponse, attempt: int) -> ArtifactProduced | None:
    """The newest one that is in S3."""
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
        raise Broken(
            "none of its processes carries RUNSPINE_RUN_ID", "pass the environment on to the trainer"
        )
    processes[0].kill()


# In this order; after a failure of the first or the third there is nothing left to check.
CHECKS: dict[str, Callable[[Stand], str]] = {
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

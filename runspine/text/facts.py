"""One-line descriptions of facts, for timelines and feeds."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from typing import Any

from runspine.domain.lineage import start_text
from runspine.spec.plain import enum_word
from runspine.text import artifact_facts, notice_facts
from runspine.text.values import escaped, local_time, number, size, span
from runspine.wire.v1.facts_pb2 import (
    DONE,
    NOT_DONE,
    REFUSED,
    AttemptExited,
    AttemptStarted,
    CallRecorded,
    Counts,
    Fact,
    FoldersRemoved,
    Outcome,
    Progress,
    Tracking,
    TrackingState,
    TrainerDescribed,
)

_SERVICES = {"wandb": "W&B"}


def describe(fact: Fact) -> str:
    """Describe a fact in one line; the text is escaped."""
    kind = fact.WhichOneof("kind")
    if kind is None:
        return "a kind of fact that this version does not know"
    return escaped(DESCRIPTIONS[kind](getattr(fact, kind)))


def style_of(fact: Fact) -> str:
    return _STYLES.get(fact.WhichOneof("kind") or "", "")


def progress_parts(progress: Progress) -> list[str]:
    """step 1,200/50,000 (2 %), mean return 21.5, 12 episodes, 3,120 steps/s"""
    words = []
    if progress.total_steps and (progress.step or not progress.episodes):
        # The last rollout of vector envs may end after the planned step.
        share = min(100.0, 100 * progress.step / progress.total_steps)
        words.append(f"step {progress.step:,}/{progress.total_steps:,} ({share:.0f} %)")
    elif progress.step:
        words.append(f"step {progress.step:,}")
    if progress.HasField("mean_return"):
        words.append(f"mean return {number(progress.mean_return)}")
    elif progress.agent_returns:
        words.append(f"mean returns {agent_returns_text(progress)}")
    if progress.episodes:
        words.append(f"{progress.episodes:,} episode{'s' if progress.episodes > 1 else ''}")
    if progress.HasField("evaluation"):
        evaluation = progress.evaluation
        words.append(
            f"evaluated {number(evaluation.mean)} ± {number(evaluation.std, 3)} in {evaluation.batches:,} "
            f"batch{'es' if evaluation.batches > 1 else ''}"
        )
    if progress.steps_per_second:
        words.append(f"{progress.steps_per_second:,.0f} steps/s")
    if progress.held_back:
        words.append(f"held back: {escaped(progress.held_back)} ({span(progress.held_back_seconds)} so far)")
    if progress.stalled_since:
        words.append(f"stalled since {local_time(progress.stalled_since)}")
    return words


def agent_returns_text(progress: Progress, most: int = 4) -> str:
    """player_0 20, player_1 -20, and 2 more"""
    agents = sorted(progress.agent_returns)
    words = [f"{escaped(agent)} {number(progress.agent_returns[agent])}" for agent in agents[:most]]
    return ", ".join(words) + (f", and {len(agents) - most} more" if len(agents) > most else "")


def join_fitting(words: list[str], room: int) -> str:
    """Join as many of the words as fit, never cutting one."""
    kept: list[str] = []
    for word in words:
        if not kept or len(", ".join([*kept, word])) <= room:
            kept.append(word)
    return ", ".join(kept)


def counts_text(counts: Counts) -> str:
    parts = [
        f"{counts.steps:,} steps",
        f"{counts.episodes:,} episodes",
        f"{counts.metrics:,} metrics",
        f"{counts.log_lines:,} log lines",
    ]
    if counts.malformed:
        parts.append(f"{counts.malformed:,} malformed lines")
    if counts.dropped:
        parts.append(f"{counts.dropped:,} not recorded")
    if counts.not_finite:
        parts.append(f"{counts.not_finite:,} NaN or infinite")
    return ", ".join(parts)


def pending_text(count: int) -> str:
    """Number of pending uploads; empty when there are none."""
    return f"{count:,} artifact{'s' if count > 1 else ''} still to be uploaded" if count else ""


def exit_text(exited: AttemptExited) -> str:
    """Outcome of an attempt with its exit code, signal and reason."""
    outcome = enum_word(Outcome.DESCRIPTOR, exited.outcome).replace("_", " ") or "ended"
    if exited.signal:
        how = f"signal {exited.signal}"
    elif exited.outcome == Outcome.EXITED:
        how = f"exit code {exited.exit_code}"
    else:
        how = ""
    ending = f"{outcome} ({how})" if how else outcome
    # The reason often repeats the exit code or signal.
    return f"{ending}: {exited.reason}" if exited.reason not in ("", how) else ending


def tracking_text(tracking: Tracking) -> str:
    """W&B: https://wandb.ai/me/cartpole/runs/abc (cartpole, ppo-1, syncing)"""
    service = _SERVICES.get(tracking.service, tracking.service)
    state = enum_word(TrackingState.DESCRIPTOR, tracking.state)
    details = ", ".join(part for part in (tracking.project, tracking.name or tracking.run, state) if part)
    return f"{service}: {tracking.url or 'no address'}" + (f" ({details})" if details else "")


def _description(described: TrainerDescribed) -> str:
    parts = []
    if described.config_json:
        parts.append(f"its configuration ({size(len(described.config_json))})")
    if described.protocol:
        parts.append(
            f"protocol {described.protocol}" + (f" of {described.writer}" if described.writer else "")
        )
    return " and ".join(parts or ["nothing"]) + _because(described.notice)


def _because(text: str) -> str:
    return f": {text}" if text else ""


def _resumed(started: AttemptStarted) -> str:
    if not started.HasField("resumed_from"):
        return ""
    return f", {start_text(started.resumed_from)}"


def _by(name: str) -> str:
    return f" by {name}" if name else ""


def call_text(f: CallRecorded) -> str:
    """A call of the audit trail: who, what, from where, refused or not."""
    how = {DONE: "", REFUSED: " refused", NOT_DONE: " not done"}.get(f.outcome, "")
    count = f" {f.count} times" if f.count > 1 else ""
    target = f" {f.target}" if f.target else ""
    where = f.peer + (f" for {f.forwarded}" if f.forwarded else "")
    reason = f" ({f.code}: {f.reason})" if f.outcome != DONE else ""
    return (
        f"{f.caller or 'a stranger'} called {f.method or 'a method'}{target}{count} from {where}{how}{reason}"
    )


def _folders(f: FoldersRemoved) -> str:
    count, rules = len(f.folders), ", ".join(sorted({folder.rule for folder in f.folders}))
    what = f"{count:,} run director{'ies' if count != 1 else 'y'}"
    return f"worker {f.worker_id} removed {what} by {rules} ({size(sum(each.bytes for each in f.folders))})"


DESCRIPTIONS: dict[str, Callable[[Any], str]] = {
    "run_submitted": lambda f: (
        f"submitted{_by(f.submitted_by)} as {f.name}" + (f", resubmitted from {f.parent}" if f.parent else "")
    ),
    "run_queued": lambda f: f"queued (attempt {f.attempt})",
    "run_started": lambda f: f"attempt {f.attempt} runs on {f.worker_id}",
    "run_went_stale": lambda f: f"attempt {f.attempt} is stale: last heartbeat at {local_time(f.last_heard)}",
    "run_came_back": lambda f: f"attempt {f.attempt} is alive again: heartbeat received",
    "run_cancel_requested": lambda f: f"cancel requested{_by(f.requested_by)}{_because(f.reason)}",
    "run_completed": lambda f: f"completed{_because(f.reason)}: {counts_text(f.counts)}",
    "run_failed": lambda f: f"failed{_because(f.reason)}",
    "run_cancelled": lambda f: f"cancelled{_because(f.reason)}",
    "run_requeued": lambda f: (
        f"requeued for attempt {f.attempt}{_because(f.reason)}"
        + (f" (not before {local_time(f.not_before)})" if f.not_before else "")
    ),
    "run_priority_changed": lambda f: f"priority is now {f.priority}{_by(f.changed_by)}",
    "run_labelled": lambda f: (
        "labels: " + ", ".join(f"{k}={v}" if v else f"{k} removed" for k, v in sorted(f.labels.items()))
    ),
    "key_reserved": lambda f: f"idempotency key reserved for run {f.run_id}",
    "attempt_started": lambda f: (
        f"attempt {f.attempt} started on {f.worker_id or f.host}{_resumed(f)}: {shlex.join(f.command)}"
    ),
    "artifact_produced": lambda f: f"{f.kind} {f.name} stored ({size(f.size)}, sha256 {f.digest[:12]})",
    "trainer_described": lambda f: f"attempt {f.attempt} reported {_description(f)}",
    "tracking_reported": lambda f: f"attempt {f.attempt} is tracked at {tracking_text(f.tracking)}",
    "artifact_given_up": lambda f: f"{f.kind} {f.name} was not stored{_because(f.reason)}",
    "attempt_progressed": lambda f: ", ".join(
        progress_parts(f.progress) or [f"attempt {f.attempt}: no progress reported yet"]
    ),
    "attempt_exited": lambda f: f"attempt {f.attempt} {exit_text(f)}",
    "placement_ended": lambda f: (
        f"{f.stop.engine} ended the worker of attempt {f.attempt}{_because(f.stop.reason)}"
    ),
    "worker_online": lambda f: (
        f"worker {f.worker_id} is online: {f.slots} slots, pools {', '.join(f.pools) or 'none'}"
    ),
    "worker_offline": lambda f: f"worker {f.worker_id} is offline{_because(f.reason)}",
    "folders_removed": _folders,
    "key_introduced": lambda f: (
        f"key of {f.role}{' ' + f.worker_id if f.worker_id else ''} introduced by the root key"
    ),
    "key_revoked": lambda f: f"key revoked{_by(f.revoked_by)}{_because(f.reason)}",
    "signing_began": lambda _: "signing began: unsigned commits no longer count",
    "subject_released": lambda f: (
        f"quarantine of positions {f.first} to {f.last} ended{_by(f.released_by)}{_because(f.reason)}"
    ),
    "call_recorded": call_text,
    **artifact_facts.DESCRIPTIONS,
    **notice_facts.DESCRIPTIONS,
}

_STYLES = {
    "notice_failed": "yellow",
    "artifact_corrupt": "red",
    "artifact_pruned": "magenta",
    "folders_removed": "magenta",
    "run_started": "blue",
    "run_went_stale": "yellow",
    "run_came_back": "blue",
    "run_cancel_requested": "yellow",
    "run_completed": "green",
    "run_failed": "red",
    "run_cancelled": "magenta",
    "run_requeued": "yellow",
    "attempt_progressed": "dim",
    "artifact_given_up": "yellow",
}


def elapsed(started_at: int, ended_at: int, now: float) -> str:
    if not started_at:
        return "–"
    return span((ended_at / 1e6 if ended_at else now) - started_at / 1e6)

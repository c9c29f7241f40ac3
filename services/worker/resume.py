"""Where an attempt begins: at the newest good checkpoint of its run, at another run's, or at step 0.

An evaluation begins with the checkpoint it evaluates, always.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from runspine.blobs import Blobs, BlobsUnavailable, NotWritten
from runspine.log.subjects import attempts_subject
from runspine.run.attempts import find_attempt
from runspine.wire.v1.facts_pb2 import ArtifactProduced, Fact, ResumedFrom
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY
from services.worker.artifact import CHECKPOINT, digest_of
from services.worker.doubts import Doubts
from services.worker.recorder import Recorder
from services.worker.verdict import attempts_of

log = structlog.get_logger()

RESUME = "resume"
WARM_START = "warm_start"
EVALUATION = "evaluate"
PLAYING = "play"
LAST_STEP = (1 << 64) - 1


class Damaged(Exception):
    """The checkpoint in S3 is not what was stored."""


class Missing(Damaged):
    """S3 does not give the checkpoint, or not all of it; perhaps only for now."""


class InDoubt(Exception):
    """A checkpoint may be lost: too early to tell."""


@dataclass(frozen=True, slots=True)
class Start:
    """How an attempt begins; without a path, from the beginning."""

    path: Path | None = None
    kind: str = ""
    source: ResumedFrom | None = None
    # For the run's log.
    notes: list[str] = field(default_factory=list)
    # Why it cannot begin at all.
    obstacle: str = ""
    # Digests of objects that turned out to be damaged.
    damaged: list[str] = field(default_factory=list)
    # Where the run's dataset lies, unpacked and checked.
    dataset: Path | None = None

    @property
    def variables(self) -> dict[str, str]:
        given = {"RUNSPINE_DATASET": str(self.dataset)} if self.dataset else {}
        if self.path is None:
            return given
        return {**given, "RUNSPINE_RESUME": str(self.path), "RUNSPINE_RESUME_KIND": self.kind}


def checkpoints(history: list[Fact]) -> list[ArtifactProduced]:
    """What can be gone on from, newest first: the furthest step, then the latest attempt."""
    found = [
        artifact
        for attempt in attempts_of(history).attempts
        for artifact in attempt.artifacts
        if artifact.kind == CHECKPOINT
    ]
    found.sort(key=lambda artifact: (artifact.step, artifact.attempt))
    found.reverse()  # not `reverse=True`: of equals the one said last counts
    return found


def behind(run_id: str, history: list[Fact]) -> list[ArtifactProduced]:
    """Those that lie behind the last attempt, on the line of attempts that each went on from another.

    A checkpoint that was stored too late for the next attempt is not on it: its steps are a past that
    did not happen, and what was done instead has no end that fits to it.
    """
    attempts = attempts_of(history)
    furthest: dict[int, int] = {}
    number, step = (attempts.attempts[-1].number if attempts.attempts else 0), LAST_STEP
    while (attempt := find_attempt(attempts, number)) is not None and number not in furthest:
        furthest[number] = step
        source = attempt.resumed_from
        number, step = (source.attempt, min(step, source.step)) if source.run_id == run_id else (0, 0)
    return [each for each in checkpoints(history) if each.step <= furthest.get(each.attempt, -1)]


async def find_start(
    recorder: Recorder,
    blobs: Blobs,
    doubts: Doubts,
    run: Run,
    attempt: int,
    run_dir: Path,
    runner: RunnerInfo,
) -> Start:
    """Look for a checkpoint and fetch it.

    Raises BlobsUnavailable or InDoubt: waiting is better than beginning anew.
    """
    if run.spec.mode == EVALUATE:
        wanted = run.spec.evaluation
        return await _given(blobs, doubts, wanted.digest, wanted.name, run_dir, EVALUATION)
    if run.spec.mode == PLAY:
        _, _, digest = run.spec.play.actor.partition(":")
        return await _given(blobs, doubts, digest, "", run_dir, PLAYING) if digest else Start()
    start = Start()
    if attempt > 1 and runner.resumes:
        history, _ = await recorder.read(attempts_subject(run.id))
        start = await _first_good(blobs, doubts, run.id, behind(run.id, history), run_dir, RESUME)
        if start.path is not None:
            return start
        if start.notes:
            start.notes.append("no checkpoint of this run is good: it begins anew")
    if run.spec.warm_start.run_id:
        warm = await _warm_start(recorder, blobs, doubts, run, run_dir)
        return Start(
            warm.path,
            warm.kind,
            warm.source,
            [*start.notes, *warm.notes],
            warm.obstacle,
            [*start.damaged, *warm.damaged],
        )
    return start


async def _given(blobs: Blobs, doubts: Doubts, digest: str, name: str, run_dir: Path, kind: str) -> Start:
    """The checkpoint that the spec names."""
    asked = await in_store(blobs, digest, name)
    start = await _first_good(blobs, doubts, "", [asked], run_dir, kind)
    if start.path is None:
        flaw = "; ".join(start.notes).partition(": ")[2]
        why = f"checkpoint {digest[:12]} cannot be {'evaluated' if kind == EVALUATION else 'played'}: {flaw}"
        return Start(obstacle=why, damaged=start.damaged)
    # What it begins with is in the spec: the attempt itself goes on from nothing.
    return Start(start.path, kind)


async def in_store(blobs: Blobs, digest: str, name: str = "") -> ArtifactProduced:
    """Where the bytes of a digest lie."""
    key = f"artifacts/sha256/{digest[:2]}/{digest}"
    return ArtifactProduced(name=name, digest=digest, key=key, size=await blobs.stat(key) or 0)


async def _warm_start(recorder: Recorder, blobs: Blobs, doubts: Doubts, run: Run, run_dir: Path) -> Start:
    wanted = run.spec.warm_start
    history, _ = await recorder.read(attempts_subject(wanted.run_id))
    found = [each for each in checkpoints(history) if wanted.digest in ("", each.digest)]
    if not found:
        which = f"no checkpoint {wanted.digest}" if wanted.digest else "no checkpoint"
        return Start(obstacle=f"warm start: run {wanted.run_id} has {which}")
    start = await _first_good(blobs, doubts, wanted.run_id, found, run_dir, WARM_START)
    if start.path is None:
        why = f"warm start: no checkpoint of run {wanted.run_id} can be used: {'; '.join(start.notes)}"
        return Start(obstacle=why, notes=start.notes, damaged=start.damaged)
    return start


async def _first_good(
    blobs: Blobs, doubts: Doubts, run_id: str, candidates: list[ArtifactProduced], run_dir: Path, kind: str
) -> Start:
    notes, damaged = [], []
    for artifact in candidates:
        if artifact.digest in damaged:
            continue  # a later attempt had made the same bytes again
        # The suffix tells a trainer what it is; the rest of the name is the other run's affair.
        path = run_dir / "resume" / f"{artifact.digest}{Path(artifact.name).suffix}"
        try:
            await fetch(blobs, artifact, path)
        except Damaged as error:
            if isinstance(error, Missing) and not await doubts.confirmed(artifact.digest):
                raise InDoubt(
                    f"its checkpoint at step {artifact.step}: {error}; "
                    f"it is looked for again for {doubts.patience:g} s before it is given up"
                ) from error
            log.warning("checkpoint.damaged", run_id=run_id, digest=artifact.digest, error=str(error))
            notes.append(f"checkpoint at step {artifact.step} is not used: {error}")
            damaged.append(artifact.digest)
            continue
        doubts.settled(artifact.digest)
        source = ResumedFrom(
            run_id=run_id, attempt=artifact.attempt, digest=artifact.digest, step=artifact.step
        )
        what = "goes on" if kind == RESUME else f"starts warm with run {run_id},"
        notes.append(f"{what} from the checkpoint at step {artifact.step} of attempt {artifact.attempt}")
        return Start(path, kind, source, notes, damaged=damaged)
    return Start(notes=notes, damaged=damaged)


async def fetch(blobs: Blobs, artifact: ArtifactProduced, path: Path) -> None:
    """Download and verify. Raises Damaged or Missing, and BlobsUnavailable when S3 is away."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(path.name + ".part")
    await _download(blobs, artifact.key, draft)
    size = draft.stat().st_size
    if size != artifact.size:
        raise Missing(f"it has {size:,} bytes in S3 instead of {artifact.size:,}")
    if await asyncio.to_thread(digest_of, draft) != artifact.digest:
        raise Damaged("its bytes in S3 are not those that were stored (SHA-256 differs)")
    draft.rename(path)


async def _download(blobs: Blobs, key: str, path: Path) -> None:
    try:
        found = await blobs.get_file(key, path)
    except NotWritten:
        raise
    except BlobsUnavailable as error:
        # Raises when the server is away, which is another matter.
        found = await blobs.stat(key) is not None
        if found:
            raise Missing(f"S3 has its name but not its bytes: {error}") from error
    if not found:
        raise Missing("it is gone from S3")

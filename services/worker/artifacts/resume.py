"""Where an attempt starts: at the newest good checkpoint of its run, at another run's, or at step 0.

An evaluation always starts with the checkpoint that it evaluates.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from runspine.domain.artifact import IMPORTS
from runspine.domain.artifact_kinds import CHECKPOINT
from runspine.domain.downloads import DOWNLOADS
from runspine.domain.lineage import start_text
from runspine.domain.run.attempts import find_attempt
from runspine.eventlog.subjects import attempts_subject
from runspine.play.actor_names import checkpoint_of
from runspine.services.worker.artifacts.beneath import open_beneath, opened_folder
from runspine.services.worker.artifacts.intents import digest_of
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.facts.outcome import attempts_of
from runspine.storage.blobs import Blobs, BlobsUnavailableError, NotWrittenError
from runspine.storage.keys import artifact_key
from runspine.storage.missing import MissingObjects
from runspine.wire.v1.facts_pb2 import ArtifactProduced, Fact, ResumedFrom
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY

log = structlog.get_logger()

RESUME = "resume"
WARM_START = "warm_start"
EVALUATION = "evaluate"
PLAY_START = "play"
MAX_STEP = (1 << 64) - 1


class CheckpointDamagedError(Exception):
    """The checkpoint in S3 is not what was stored."""


class CheckpointMissingError(CheckpointDamagedError):
    """S3 does not return the checkpoint, or not all of it; possibly only for now."""


class CheckpointUnconfirmedError(Exception):
    """A checkpoint may be lost; that is not confirmed yet."""


@dataclass(frozen=True, slots=True)
class AttemptStart:
    """How an attempt starts; without a path, at step 0."""

    path: Path | None = None
    kind: str = ""
    source: ResumedFrom | None = None
    # For the run's log.
    notes: list[str] = field(default_factory=list)
    # Why it cannot start at all.
    obstacle: str = ""
    # Digests of objects that turned out to be damaged.
    damaged: list[str] = field(default_factory=list)
    # The run's dataset, unpacked and checked.
    dataset: Path | None = None
    # The folder in which the program starts, in a working copy of the run's code.
    work: Path | None = None

    @property
    def episodes_before(self) -> int:
        """Episodes that the run had trained when it wrote the checkpoint; 0 for a start with another's."""
        return self.source.episodes if self.source is not None and self.kind == RESUME else 0

    @property
    def resumed_at(self) -> int:
        """The step of the run at which the attempt goes on; 0 when it begins."""
        return int(self.source.step) if self.kind == RESUME and self.source is not None else 0

    @property
    def variables(self) -> dict[str, str]:
        """Environment variables for the trainer."""
        given = {"RUNSPINE_DATASET": str(self.dataset)} if self.dataset else {}
        if self.path is None:
            return given
        given |= {"RUNSPINE_RESUME": str(self.path), "RUNSPINE_RESUME_KIND": self.kind}
        return {**given, "RUNSPINE_RESUME_STEP": str(self.resumed_at)} if self.kind == RESUME else given


def checkpoints(history: list[Fact]) -> list[ArtifactProduced]:
    """Checkpoints of a run, newest first: by step, then by attempt."""
    found = [
        artifact
        for attempt in attempts_of(history).attempts
        for artifact in attempt.artifacts
        if artifact.kind == CHECKPOINT
    ]
    found.sort(key=lambda artifact: (artifact.step, artifact.attempt))
    found.reverse()  # not `reverse=True`: of equal ones the last recorded comes first
    return found


def resumable_checkpoints(run_id: str, history: list[Fact]) -> list[ArtifactProduced]:
    """Checkpoints on the lineage of the last attempt, following each attempt to the one it resumed from.

    A checkpoint that was stored too late for the next attempt is not among them: that attempt resumed from
    an earlier step and replaced the steps after it.
    """
    attempts = attempts_of(history)
    furthest: dict[int, int] = {}
    number, step = (attempts.attempts[-1].number if attempts.attempts else 0), MAX_STEP
    while (attempt := find_attempt(attempts, number)) is not None and number not in furthest:
        furthest[number] = step
        source = attempt.resumed_from
        number, step = (source.attempt, min(step, source.step)) if source.run_id == run_id else (0, 0)
    return [each for each in checkpoints(history) if each.step <= furthest.get(each.attempt, -1)]


async def find_start(
    fact_writer: FactWriter,
    blobs: Blobs,
    missing: MissingObjects,
    run: Run,
    attempt: int,
    run_dir: Path,
    runner: RunnerInfo,
) -> AttemptStart:
    """Find the checkpoint to start from and fetch it.

    Raises BlobsUnavailableError or CheckpointUnconfirmedError: waiting is better than starting at step 0.
    """
    if run.spec.mode == EVALUATE:
        wanted = run.spec.evaluation
        return await _named_checkpoint(blobs, missing, wanted.digest, wanted.name, run_dir, EVALUATION)
    if run.spec.mode == PLAY:
        digest = checkpoint_of(run.spec.play.actor)
        return (
            await _named_checkpoint(blobs, missing, digest, "", run_dir, PLAY_START)
            if digest
            else AttemptStart()
        )
    start = AttemptStart()
    if attempt > 1 and runner.resumes:
        history = await fact_writer.read(attempts_subject(run.id))
        start = await _first_good(
            blobs, missing, run.id, resumable_checkpoints(run.id, history), run_dir, RESUME
        )
        if start.path is not None:
            return start
        if start.notes:
            start.notes.append("no checkpoint of this run is good: it starts again from step 0")
    if run.spec.warm_start.run_id:
        warm = await _warm_start(fact_writer, blobs, missing, run, run_dir)
        return AttemptStart(
            warm.path,
            warm.kind,
            warm.source,
            [*start.notes, *warm.notes],
            warm.obstacle,
            [*start.damaged, *warm.damaged],
        )
    return start


async def _named_checkpoint(
    blobs: Blobs, missing: MissingObjects, digest: str, name: str, run_dir: Path, kind: str
) -> AttemptStart:
    """The checkpoint that the spec names."""
    wanted = await stored_artifact(blobs, digest, name)
    start = await _first_good(blobs, missing, "", [wanted], run_dir, kind)
    if start.path is None:
        reason = "; ".join(start.notes).partition(": ")[2]
        use = "evaluated" if kind == EVALUATION else "played"
        why = f"checkpoint {digest[:12]} cannot be {use}: {reason}"
        return AttemptStart(obstacle=why, damaged=start.damaged)
    # The checkpoint is named by the spec: the attempt itself resumes from nothing.
    return AttemptStart(start.path, kind)


async def stored_artifact(blobs: Blobs, digest: str, name: str = "") -> ArtifactProduced:
    """The stored object of a digest, with its key and size."""
    key = artifact_key(digest)
    return ArtifactProduced(name=name, digest=digest, key=key, size=await blobs.stat(key) or 0)


async def _warm_start(
    fact_writer: FactWriter, blobs: Blobs, missing: MissingObjects, run: Run, run_dir: Path
) -> AttemptStart:
    wanted = run.spec.warm_start
    imported = wanted.run_id.startswith(IMPORTS)
    if imported:
        # An import is on no worker's history: the service has stored its digest in the spec.
        found = [await stored_artifact(blobs, wanted.digest, wanted.name)]
    else:
        history = await fact_writer.read(attempts_subject(wanted.run_id))
        found = [each for each in checkpoints(history) if wanted.digest in ("", each.digest)]
    if not found:
        which = f"no checkpoint {wanted.digest}" if wanted.digest else "no checkpoint"
        return AttemptStart(obstacle=f"warm start: run {wanted.run_id} has {which}")
    start = await _first_good(blobs, missing, wanted.run_id, found, run_dir, WARM_START)
    if start.path is None:
        whose = f"{'import' if imported else 'run'} {wanted.run_id}"
        why = f"warm start: no checkpoint of {whose} can be used: {'; '.join(start.notes)}"
        return AttemptStart(obstacle=why, notes=start.notes, damaged=start.damaged)
    assert start.source is not None, "a start with a path has a source"
    start.source.warm_start, start.source.name = True, wanted.given or wanted.name
    start.notes[-1] = start_text(start.source)
    return start


async def _first_good(
    blobs: Blobs,
    missing: MissingObjects,
    run_id: str,
    candidates: list[ArtifactProduced],
    run_dir: Path,
    kind: str,
) -> AttemptStart:
    notes, damaged = [], []
    for artifact in candidates:
        if artifact.digest in damaged:
            continue  # a later attempt produced the same bytes again
        # A trainer knows the format by the suffix; the rest of the name is not used.
        name = f"{artifact.digest}{Path(artifact.name).suffix}"
        try:
            path = await fetch_for_run(blobs, artifact, run_dir, name)
        except CheckpointDamagedError as error:
            if isinstance(error, CheckpointMissingError) and not await missing.confirmed(artifact.digest):
                raise CheckpointUnconfirmedError(
                    f"its checkpoint at step {artifact.step}: {error}; "
                    f"it is requested again for {missing.patience:g} s before it is given up"
                ) from error
            log.warning("checkpoint.damaged", run_id=run_id, digest=artifact.digest, error=str(error))
            notes.append(f"checkpoint at step {artifact.step} is not used: {error}")
            damaged.append(artifact.digest)
            continue
        missing.settled(artifact.digest)
        source = ResumedFrom(
            run_id=run_id,
            attempt=artifact.attempt,
            digest=artifact.digest,
            step=artifact.step,
            episodes=artifact.episodes,
        )
        notes.append(f"resumes from the checkpoint at step {artifact.step} of attempt {artifact.attempt}")
        return AttemptStart(path, kind, source, notes, damaged=damaged)
    return AttemptStart(notes=notes, damaged=damaged)


async def fetch(blobs: Blobs, artifact: ArtifactProduced, path: Path) -> None:
    """Download and verify.

    Raises CheckpointDamagedError or CheckpointMissingError, and BlobsUnavailableError when S3 is unavailable.
    """
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(path.name + ".part")
    await _fetch_draft(blobs, artifact, draft)
    draft.rename(path)


async def fetch_for_run(blobs: Blobs, artifact: ArtifactProduced, run_dir: Path, name: str) -> Path:
    """Download and verify a file for a trainer that may be running already; its path. Raises as `fetch`."""
    await asyncio.to_thread(run_dir.mkdir, 0o700, parents=True, exist_ok=True)
    # Next to the directory and not in it: the trainer could put a link in the draft's place.
    draft = run_dir.with_name(f"{run_dir.name}-{name}.part")
    await _fetch_draft(blobs, artifact, draft)
    await asyncio.to_thread(_move_into, draft, run_dir, name)
    return run_dir / DOWNLOADS / name


async def _fetch_draft(blobs: Blobs, artifact: ArtifactProduced, draft: Path) -> None:
    await _download(blobs, artifact.key, draft)
    size = (await asyncio.to_thread(draft.stat)).st_size
    if size != artifact.size:
        raise CheckpointMissingError(f"it has {size:,} bytes in S3 instead of {artifact.size:,}")
    if await asyncio.to_thread(digest_of, draft) != artifact.digest:
        raise CheckpointDamagedError("its bytes in S3 are not those that were stored (SHA-256 differs)")


def _move_into(draft: Path, run_dir: Path, name: str) -> None:
    """Move a file to the downloads of a run, through no link."""
    with opened_folder(run_dir) as root:
        with contextlib.suppress(FileExistsError):
            os.mkdir(DOWNLOADS, 0o700, dir_fd=root)
        folder = open_beneath(root, DOWNLOADS, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.rename(draft, name, dst_dir_fd=folder)
        finally:
            os.close(folder)


async def _download(blobs: Blobs, key: str, path: Path) -> None:
    try:
        found = await blobs.get_file(key, path)
    except NotWrittenError:
        raise
    except BlobsUnavailableError as error:
        # Raises BlobsUnavailableError when the server itself is unavailable.
        found = await blobs.stat(key) is not None
        if found:
            raise CheckpointMissingError(f"S3 has its name but not its bytes: {error}") from error
    if not found:
        raise CheckpointMissingError("it is gone from S3")

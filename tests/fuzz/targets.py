"""What is fuzzed: functions of bytes that may refuse what they are given in words, and nothing else.

Each raises when something that nobody promised comes out: another exception, a path that leads
outside, an accepted spec that is not accepted again.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable
from pathlib import Path

from google.protobuf.message import DecodeError

from runspine.backup.log_export import read_export
from runspine.checkpoints import CheckpointError, inspect_checkpoint
from runspine.checkpoints.archive import unpack
from runspine.domain.artifact.evolve import fold as fold_artifacts
from runspine.domain.run.evolve import fold
from runspine.errors import InvalidError
from runspine.eventlog.chain import ChainVerifier, digest_of
from runspine.eventlog.port import Recorded
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.listing import list_runs
from runspine.services.orchestrator.core.spec_rules import violations, with_defaults
from runspine.services.telemetry.core.manifest import ManifestChainError
from runspine.services.telemetry.core.manifest import unpack as unpack_manifest
from runspine.services.worker.artifacts.intents import UploadRefusedError, resolve_inside
from runspine.services.worker.protocol.frame_splitter import Frame, FrameSplitter
from runspine.services.worker.runners.script import ScriptRunner
from runspine.services.worker.telemetry.assembly.assembler import BatchAssembler
from runspine.spec.plain import to_plain
from runspine.spec.run_file import parse, read_bytes, spec_yaml
from runspine.sweep.plan import parse_plan
from runspine.text.facts import describe
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import STDERR, STDOUT, Batch
from runspine.wire.v1.trainer_pb2 import ListRequest

AT = 1_794_800_549_250_000
FOLDER = Path("/nonexistent")
SUFFIXES = (".pt", ".zip", ".cleanrl_model", ".safetensors")
INSTALLED = {"script": ScriptRunner().info()}


def protocol(data: bytes) -> None:
    """Whatever a trainer prints is recorded: every line is counted, and every batch can be read again."""
    recording = BatchAssembler("run", 1, RunSpec(total_steps=1000))
    lines = data.split(b"\n")
    for number, line in enumerate(lines):
        recording.take(line, STDERR if number % 7 == 6 else STDOUT, AT + number)
    assert recording.lines_read == len(lines)
    for record in recording.cut(AT + len(lines), final=True):
        Batch.FromString(record.payload)
    recording.note(AT)


def frames(data: bytes) -> None:
    """Whatever is on a trainer's descriptor, however it is cut: steps count once, batches are readable."""
    found = []
    for chunk in (len(data) or 1, 7):
        recording, splitter = BatchAssembler("run", 1, RunSpec(total_steps=1000)), FrameSplitter()
        parts = [data[start : start + chunk] for start in range(0, len(data), chunk)]
        items = [item for part in parts for item in splitter.feed(part)] + list(splitter.finish())
        for item in items:
            if isinstance(item, Frame):
                recording.take_frame(item, AT)
            else:
                recording.take(item, STDOUT, AT)
        batches = [Batch.FromString(record.payload) for record in recording.cut(AT, final=True)]
        steps = sum(block.count for batch in batches for block in batch.steps.blocks)
        assert steps == recording.counts.steps
        found.append((items, steps))
    assert found[0] == found[1], "it depends on where chunks end"


def runfile(data: bytes) -> None:
    """A run file is refused in words, or its runs can be written down and read again."""
    try:
        asked = parse(read_bytes(data, "f"), source="f", folder=FOLDER)
    except InvalidError:
        return
    for spec in asked.specs[:5]:
        [again] = parse(spec_yaml(spec), source="again", folder=FOLDER).specs
        assert again.SerializeToString(deterministic=True) == spec.SerializeToString(deterministic=True)


def sweepfile(data: bytes) -> None:
    """A sweep file is refused in words, or its runs lie in its own space."""
    try:
        plan = parse_plan(read_bytes(data, "f"), Path("f.yaml"))
    except InvalidError:
        return
    point = {axis.path: (axis.values() or [getattr(axis, "low", 0)])[0] for axis in plan.axes}
    assert plan.point(plan.spec(0, point, plan.seeds[0])) == point


def request(data: bytes) -> None:
    """A spec off the wire is refused by field, or accepted for good."""
    with contextlib.suppress(DecodeError):
        list_runs(Board(), ListRequest.FromString(data))
    try:
        spec = RunSpec.FromString(data)
    except DecodeError:
        return
    if violations(spec, INSTALLED):
        return
    full = with_defaults(spec, INSTALLED)
    assert not violations(full, INSTALLED)
    assert with_defaults(full, INSTALLED) == full
    to_plain(full)


def artifact(data: bytes) -> None:
    """A path that a trainer names lies in the run's directory, or is refused."""
    with tempfile.TemporaryDirectory() as root:
        folder = Path(root) / "run"
        folder.mkdir()
        (folder / "link").symlink_to("/etc")
        try:
            path = resolve_inside(data.decode("utf-8", "surrogateescape"), folder)
        except UploadRefusedError:
            return
        assert path.is_relative_to(folder.resolve())


def imports(data: bytes) -> None:
    """A file from outside is described or refused; an archive is unpacked where it should be."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / f"file{SUFFIXES[data[0] % len(SUFFIXES) if data else 0]}"
        path.write_bytes(data[1:])
        for read in (inspect_checkpoint, lambda given: unpack(given, Path(root) / "inner")):
            try:
                read(path)
            except CheckpointError:
                continue
        assert {child.name for child in Path(root).iterdir()} <= {path.name, "inner"}


def events(data: bytes) -> None:
    """Bytes on the log are a commit or are named as damage; folds take any fact."""
    verifier = ChainVerifier("RUNS")
    verifier.feed(1, "runs.r1", data, digest_of(data))
    found_problems = verifier.finish(1)
    try:
        commit = Commit.FromString(data)
    except DecodeError:
        assert found_problems, "what is no commit must not pass"
        return
    fold(commit.facts)
    fold_artifacts(commit.facts)
    board = Board()
    for subject in ("runs.r1", "attempts.r1", "workers.w1"):
        board.apply(Recorded("RUNS", 1, subject, data, digest_of(data), AT))
    Board().load(board.dump())
    for fact in commit.facts:
        describe(fact)
        to_plain(fact)


def exported(data: bytes) -> None:
    """An exported log is read to its end, or reported as damaged."""
    with tempfile.TemporaryDirectory() as root:
        path = Path(root) / "log"
        path.write_bytes(data)
        try:
            _, records = read_export(path)
            list(records)
        except InvalidError:
            return


def manifest(data: bytes) -> None:
    """A manifest of the archive is whole, or reported as broken."""
    try:
        unpack_manifest(data)
    except ManifestChainError:
        return


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one
    for one in (protocol, frames, runfile, sweepfile, request, artifact, imports, events, exported, manifest)
}

"""Submits runs of other tools. The same run is submitted once, however often it is imported."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from runspine.code.upload import code_of, store_snapshot
from runspine.imports.packing import PackedRun, pack
from runspine.imports.source import SourceRun
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.spec_pb2 import Capture, Retry, RunSpec

COMMAND = ("python", "-m", "runspine.imports")
# Label by which imported runs are found; its value is the tool.
LABEL = "imported"
RUNNER = "script"
# Behind everything that trains.
PRIORITY = 0
MAX_NAME = 200
ATTEMPTS = 3


@dataclass(frozen=True, slots=True)
class ImportedRun:
    """What became of a run."""

    source: SourceRun
    run_id: str
    points: int
    # False when it had been imported before.
    created: bool


def import_run(client: Client, source: SourceRun, project: str, labels: Mapping[str, str]) -> ImportedRun:
    """Store and submit a run. Raises RunspineError."""
    # A spec is made of the content alone: the same content has the same key.
    with tempfile.TemporaryDirectory(prefix="runspine-import-") as name:
        packed = pack(source, Path(name))
        store_snapshot(client, packed.snapshot)
        spec = spec_of(source, packed, project, labels)
    key = hashlib.sha256(spec.SerializeToString(deterministic=True)).hexdigest()
    response = client.submit(spec, key=f"import-{key}")
    return ImportedRun(source, response.run.id, packed.points, response.created)


def spec_of(source: SourceRun, packed: PackedRun, project: str, labels: Mapping[str, str]) -> RunSpec:
    spec = RunSpec(
        name=source.name[:MAX_NAME],
        runner=RUNNER,
        command=COMMAND,
        project=project or source.project[:MAX_NAME],
        priority=PRIORITY,
        labels={**labels, LABEL: source.tool},
        notes=notes_of(source, packed),
        retry=Retry(max_attempts=ATTEMPTS),
        capture=Capture(instrument=False),
    )
    spec.code.CopyFrom(code_of(packed.snapshot, ""))
    spec.code.origin.folder = source.tool
    return spec


def notes_of(source: SourceRun, packed: PackedRun) -> str:
    """When it ran, where it was recorded. Not the path: the same run from elsewhere is the same."""
    when = ""
    if packed.began:
        began, ended = (datetime.fromtimestamp(each, UTC) for each in (packed.began, packed.ended))
        when = f", recorded from {began:%Y-%m-%d %H:%M:%S} to {ended:%Y-%m-%d %H:%M:%S} UTC"
    return f"imported from {source.tool}: {source.name}{when}"

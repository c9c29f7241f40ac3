"""Prepares a launch without starting it: what a run would do on this host, or why it would fail."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from runspine.datasets import RUN_FOLDER, DatasetError, Manifest
from runspine.datasets.archive import manifest_at_start
from runspine.datasets.manifest import NAME
from runspine.runners import Launch, NotReadyError, Runner
from runspine.services.worker.claim.code_check import CodeCheck
from runspine.services.worker.claim.dataset_cache import COPIES, label, megabytes
from runspine.services.worker.claim.preparation import ask_runner
from runspine.services.worker.process.environment import known_secrets, resolve_secrets
from runspine.services.worker.protocol.redact import Redactor
from runspine.services.worker.runners.env_check import Space, check_env
from runspine.services.worker.runners.evaluation import EXTRA, PACKAGES
from runspine.services.worker.runners.interpreter import python_for
from runspine.services.worker.runners.probes import reused_reports
from runspine.services.worker.runners.script import PYTHONS
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.keys import artifact_key
from runspine.storage.ranged_blobs import RangedS3Blobs
from runspine.wire.v1.preflight_pb2 import PreflightProblem, PreflightReply, PreflightRequest
from runspine.wire.v1.spec_pb2 import EVALUATE, RunSpec

MIB = 1 << 20
# With less than this free on the worker's disk there is a notice.
LOW_DISK_BYTES = 1 << 30
MAX_MANIFESTS = 64
# Stands for the run's directory, which does not exist yet.
RUN_DIR = "$RUNSPINE_RUN_DIR"
# A message that begins with a field is about it.
_LEADING = re.compile(
    r"(params\.\w+|evaluation\.\w+|env_kwargs|env|algo|seed|total_steps|workdir|command|code|dataset|secret|"
    r"warm start)\b"
)
_RENAMED = {"secret": "secrets", "warm start": "warm_start"}
_NUMBERS = re.compile(r"\d+")
_SHAPE = re.compile(r"\(([\d, ]*)\), \w+\)\Z")


class NotKnownError(Exception):
    """The check cannot be answered without doing more than a check may."""


@dataclass(slots=True)
class LaunchChecker:
    """Answers launch checks on this host. Its methods block: they are for threads."""

    worker_id: str
    worker_dir: Path
    runners: Mapping[str, Runner]
    pythons: Mapping[str, str]
    environment: Mapping[str, str]
    blobs: RangedS3Blobs
    _manifests: dict[str, tuple[Manifest, int]] = field(default_factory=dict)
    _code: CodeCheck = field(init=False)

    def __post_init__(self) -> None:
        self._code = CodeCheck(self.blobs.read_range)

    @property
    def folder(self) -> Path:
        """Holds a scratch directory for each check, while it lasts."""
        return self.worker_dir / "preflight"

    def check(self, request: PreflightRequest) -> PreflightReply:
        """Ask the runner for the launch in a scratch directory, which is removed. Starts no trainer."""
        spec = request.spec
        reply = PreflightReply(worker_id=self.worker_id)
        redact = Redactor(known_secrets(spec, self.environment))
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            with reused_reports():
                self._check(request, scratch, redact, reply)
        except (BlobsUnavailableError, NotKnownError) as error:
            reply.unknown = redact(str(error))
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        return reply

    def _check(
        self, request: PreflightRequest, scratch: Path, redact: Redactor, reply: PreflightReply
    ) -> None:
        spec, launch = request.spec, None
        problems: list[NotReadyError | OSError] = list(self._secret_problems(spec))
        try:
            size = self._place_dataset(spec, scratch)
            problems += self._disk_problems(spec, size)
            python = python_for(spec.runner, self.pythons, self.environment)
            _check_program(spec)
            launch = ask_runner(self._code.place(spec, scratch), scratch, self.runners, python, redact)
            if request.trained_env:
                self._check_trained_env(request, reply)
        except (NotReadyError, OSError) as error:
            problems.append(error)
        reply.problems.extend(
            PreflightProblem(field=f"spec.{field_of(error)}", message=redact(str(error)))
            for error in problems
        )
        if launch is not None and not problems:
            self._describe(launch, scratch, redact, reply)

    def _describe(self, launch: Launch, scratch: Path, redact: Redactor, reply: PreflightReply) -> None:
        reply.command.extend(word.replace(str(scratch), RUN_DIR) for word in redact.each(launch.command))
        reply.directory = redact(str(launch.directory)).replace(str(scratch), RUN_DIR)
        free = self._free_bytes()
        if free < LOW_DISK_BYTES:
            reply.notices.append(f"worker {self.worker_id} has only {megabytes(free)} free on its disk")

    def _secret_problems(self, spec: RunSpec) -> Iterator[NotReadyError]:
        for name in spec.secrets:
            try:
                resolve_secrets(RunSpec(secrets=[name]), self.environment)
            except NotReadyError as error:
                yield error

    def _disk_problems(self, spec: RunSpec, dataset_bytes: int) -> Iterator[NotReadyError]:
        free, limit = self._free_bytes(), spec.limits.disk_mib * MIB
        if limit > free:
            yield NotReadyError(
                f"{spec.limits.disk_mib:,} MiB is more than worker {self.worker_id} has free on its disk, "
                f"{free // MIB:,} MiB: lower it, or make room there",
                "limits.disk_mib",
            )
        if dataset_bytes > free:
            yield NotReadyError(
                f"dataset {label(spec.dataset)} needs {megabytes(dataset_bytes)} on the disk of worker "
                f"{self.worker_id}, and {megabytes(free)} are free: make room there"
            )

    def _free_bytes(self) -> int:
        return shutil.disk_usage(self.worker_dir).free

    def _place_dataset(self, spec: RunSpec, scratch: Path) -> int:
        """Put the dataset's manifest where the runner reads it; bytes that fetching it would take.

        Raises NotReadyError, NotKnownError and BlobsUnavailableError.
        """
        if not spec.dataset.digest:
            return 0
        here = self.worker_dir / "datasets" / spec.dataset.digest
        if here.is_dir():
            (scratch / RUN_FOLDER).symlink_to(here)
            return 0
        try:
            manifest, size = self._manifest(spec.dataset.digest)
        except DatasetError as error:
            raise NotReadyError(f"dataset {label(spec.dataset)}: {error}") from error
        (scratch / RUN_FOLDER).mkdir()
        (scratch / RUN_FOLDER / NAME).write_text(manifest.to_json())
        return size * COPIES

    def _manifest(self, digest: str) -> tuple[Manifest, int]:
        """The manifest of a dataset in S3, and the size of its files. Raises DatasetError, NotKnownError."""
        if digest in self._manifests:
            return self._manifests[digest]
        key = artifact_key(digest)

        def read(start: int, length: int) -> bytes:
            data = self.blobs.read_range(key, start, length)
            if data is None:
                raise DatasetError("is not in S3: `runspine datasets ls` shows what there is")
            return data

        manifest = manifest_at_start(read)
        if manifest is None:
            raise NotKnownError(f"dataset {digest[:12]} must be fetched before it can be checked")
        if len(self._manifests) < MAX_MANIFESTS:
            self._manifests[digest] = manifest, manifest.size
        return manifest, manifest.size

    def _check_trained_env(self, request: PreflightRequest, reply: PreflightReply) -> None:
        """Compare the spaces of the env of an evaluation with those its checkpoint was trained in.

        Raises NotReadyError.
        """
        spec, trained = request.spec, RunSpec(env=request.trained_env, variables=request.spec.variables)
        for name, value in request.trained_env_kwargs.items():
            trained.env_kwargs[name].CopyFrom(value)
        if spec.mode != EVALUATE or not spec.env:
            return
        try:
            had = check_env(sys.executable, trained, PACKAGES, EXTRA)
        except NotReadyError as error:
            reply.notices.append(f"whether the checkpoint fits {spec.env} is not known: {error}")
            return
        have = check_env(sys.executable, spec, PACKAGES, EXTRA)
        for what, old, new in (
            ("observations", had.observations, have.observations),
            ("actions", had.actions, have.actions),
        ):
            if unlike(old, new):
                raise NotReadyError(
                    f"{spec.env} does not fit the checkpoint, which was trained in {trained.env}: its {what} "
                    f"are {new.text}, and those of {trained.env} {old.text}. Evaluate it in {trained.env}",
                    "env",
                )


def _check_program(spec: RunSpec) -> None:
    """Raise NotKnownError for a program that may come with the run's packages."""
    program = spec.command[0] if spec.command else ""
    if spec.packages.tree and "/" not in program and program not in PYTHONS and shutil.which(program) is None:
        raise NotKnownError(f"{program} is not on the PATH: its packages are installed when it starts")


def unlike(old: Space, new: Space) -> bool:
    """Whether a policy for one space cannot act in the other, by kind and size. Pure."""
    sizes = size_of(old), size_of(new)
    if None in sizes:
        return False
    return sizes[0] != sizes[1] or {old.kind, new.kind} == {"Box", "Discrete"}


def size_of(space: Space) -> int | None:
    """Numbers in a Box, or choices of a Discrete space; None for others. Pure."""
    if space.kind == "Discrete":
        found = _NUMBERS.search(space.text)
        return int(found[0]) if found else None
    shape = _SHAPE.search(space.text) if space.kind == "Box" else None
    if shape is None:
        return None
    size = 1
    for number in _NUMBERS.findall(shape[1]):
        size *= int(number)
    return size


def field_of(error: Exception) -> str:
    """The field of the spec that an obstacle is about; the runner when nothing names one. Pure."""
    if given := getattr(error, "field", ""):
        return str(given)
    found = _LEADING.match(str(error))
    return _RENAMED.get(found[1], found[1]) if found else "runner"


def remove_leftovers(checker: LaunchChecker) -> None:
    """Remove scratch directories of a worker that was killed."""
    if os.path.isdir(checker.folder):
        shutil.rmtree(checker.folder, ignore_errors=True)

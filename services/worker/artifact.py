"""A file that a trainer has announced: what may be uploaded, and the intent to do so, on disk."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import structlog

from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from runspine.wire.v1.spec_pb2 import Value
from services.worker.redact import Redactor

log = structlog.get_logger()

CHECKPOINT = "checkpoint"
PREFIX = "artifacts/sha256/"
CHUNK = 1 << 20
LONGEST_NAME = 500
MOST_META = 32 << 10


class NotAccepted(Exception):
    """The file is not uploaded; the message says why."""


@dataclass(frozen=True, slots=True)
class Intent:
    """An upload that is due. Kept on disk until it is on the log."""

    id: str
    run_id: str
    attempt: int
    kind: str
    name: str
    # The file as it was announced, and a link to it that outlives a rename or a removal.
    path: str
    link: str
    digest: str
    size: int
    step: int = 0
    meta: dict[str, Any] = field(default_factory=dict)
    # The last batch of telemetry that was said before it.
    after: int = 0

    @property
    def key(self) -> str:
        return f"{PREFIX}{self.digest[:2]}/{self.digest}"

    @property
    def file(self) -> Path:
        return Path(self.link or self.path)

    def fact(self) -> ArtifactProduced:
        return ArtifactProduced(
            attempt=self.attempt,
            kind=self.kind,
            name=self.name,
            digest=self.digest,
            size=self.size,
            key=self.key,
            step=self.step,
            meta={name: to_value(value) for name, value in self.meta.items()},
        )


class Intents:
    """The folder that holds them: `<id>.json`, and `<id>` for the link."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def accept(
        self,
        event: Mapping[str, Any],
        run_id: str,
        attempt: int,
        run_dir: Path,
        redact: Redactor,
        *,
        after: int = 0,
        unless: Collection[tuple[str, str]] = (),
    ) -> Intent | None:
        """Check, hold on to and hash what an artifact line names. Raises NotAccepted. Blocks.

        None when `unless` has its path and digest: that file was handed in before.
        """
        path = inside(str(event["path"]), run_dir)
        link = self._folder / new_ulid()
        descriptor = open_plain(path)
        try:
            digest, size = fingerprint(descriptor, redact)
            if (str(path), digest) in unless:
                return None
            linked = _link(path, link, os.fstat(descriptor))
        finally:
            os.close(descriptor)
        intent = Intent(
            id=link.name,
            run_id=run_id,
            attempt=attempt,
            kind=redact(str(event["kind"]))[:LONGEST_NAME],
            name=redact(str(event.get("name") or path.relative_to(run_dir.resolve())))[:LONGEST_NAME],
            path=str(path),
            link=str(link) if linked else "",
            digest=digest,
            size=size,
            step=whole(event.get("step")),
            meta=clean_meta(event.get("meta"), redact),
            after=after,
        )
        self._write(intent)
        return intent

    def forget(self, intent: Intent) -> None:
        (self._folder / f"{intent.id}.json").unlink(missing_ok=True)
        (self._folder / intent.id).unlink(missing_ok=True)

    def left(self) -> list[Intent]:
        """What a process before this one had not finished, oldest first; stray links are removed."""
        found = []
        for path in sorted(self._folder.iterdir()):
            if path.suffix == ".json":
                found += _read(path)
            elif not path.with_suffix(".json").exists():
                path.unlink()
        return found

    def _write(self, intent: Intent) -> None:
        draft = self._folder / f"{intent.id}.tmp"
        with draft.open("w") as file:
            json.dump(asdict(intent), file)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(draft.with_suffix(".json"))
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read(path: Path) -> list[Intent]:
    try:
        return [Intent(**json.loads(path.read_text()))]
    except (ValueError, TypeError) as error:
        # Writes are atomic, so this is damage from outside: keep the file, and say so.
        log.error("upload.unreadable", path=str(path), error=str(error))
        return []


def inside(given: str, run_dir: Path) -> Path:
    """The path in the run's directory that a trainer means, symlinks resolved. Raises NotAccepted."""
    root = run_dir.resolve()
    try:
        path = (root / given).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise NotAccepted(f"this path cannot be resolved: {error}") from error
    if not path.is_relative_to(root):
        raise NotAccepted("it lies outside the run's directory: write it inside")
    return path


def open_plain(path: Path) -> int:
    """A descriptor of a regular file, and of nothing that was put in its place. Raises NotAccepted."""
    try:
        # A pipe without a writer would block for ever; a link that has just appeared must not be followed.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise NotAccepted(str(error.strerror)) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotAccepted("it is not a regular file: pack a directory into one file first")
    return descriptor


def fingerprint(descriptor: int, redact: Redactor) -> tuple[str, int]:
    """SHA-256 and size; refuses a file with a secret in plain sight. Raises NotAccepted."""
    digest, size, before = hashlib.sha256(), 0, b""
    while data := os.read(descriptor, CHUNK):
        digest.update(data)
        size += len(data)
        if name := redact.found_in(before + data):
            raise NotAccepted(f"it holds the value of secret {name}")
        before = data[-redact.longest :] if redact.longest else b""
    return digest.hexdigest(), size


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def whole(value: object) -> int:
    """A step as the trainer says it; 0 when it is none."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    return 0


def clean_meta(meta: object, redact: Redactor) -> dict[str, Any]:
    """The trainer's own words on a file, without secrets; dropped when they are too many."""
    if not isinstance(meta, dict):
        return {}
    text = redact(json.dumps(meta))
    if len(text) > MOST_META:
        return {"dropped": f"meta of {len(text)} bytes, more than the {MOST_META} accepted"}
    try:
        cleaned: dict[str, Any] = json.loads(text)
    except ValueError:
        return {"dropped": "meta could not be kept without a secret"}
    return cleaned


def to_value(plain: object) -> Value:
    """A JSON value as the contract has it; null becomes an empty one."""
    match plain:
        case bool():
            return Value(boolean=plain)
        case int():
            return Value(integer=plain) if abs(plain) < 1 << 63 else Value(text=str(plain))
        case float():
            return Value(number=plain)
        case str():
            return Value(text=plain)
    value = Value()
    if isinstance(plain, list):
        value.list.items.extend(to_value(item) for item in plain)
        value.list.SetInParent()
    elif isinstance(plain, dict):
        for key, item in plain.items():
            value.map.entries[str(key)].CopyFrom(to_value(item))
        value.map.SetInParent()
    return value


def _link(path: Path, link: Path, opened: os.stat_result) -> bool:
    """A second name for the very file that was hashed; no bytes are copied."""
    try:
        os.link(path, link, follow_symlinks=False)
    except OSError:
        # Another file system, or one without links: the announced name must do.
        return False
    about = link.lstat()
    if (about.st_dev, about.st_ino) != (opened.st_dev, opened.st_ino):
        link.unlink()
        raise NotAccepted("it was replaced while it was read: announce it after it is complete")
    return True

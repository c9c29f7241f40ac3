"""Intents on disk to upload announced files, and the checks that a file must pass."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import structlog

from runspine.domain.artifact_kinds import CHECKPOINT, LOADABLE
from runspine.domain.downloads import is_download
from runspine.ids import new_ulid
from runspine.services.worker.artifacts.beneath import (
    NotBeneathError,
    link_descriptor,
    open_regular,
    opened_folder,
)
from runspine.services.worker.protocol.redact import Redactor
from runspine.storage.keys import artifact_key
from runspine.wire.v1.facts_pb2 import ArtifactProduced
from runspine.wire.v1.spec_pb2 import Value

log = structlog.get_logger()

CHUNK = 1 << 20
MAX_NAME_LENGTH = 500
MAX_META_BYTES = 32 << 10


class UploadRefusedError(Exception):
    """The file is not uploaded; the message states why."""


@dataclass(frozen=True, slots=True)
class Intent:
    """An upload that is due. It is kept on disk until the artifact is on the log."""

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
    # The last batch of telemetry before it.
    after: int = 0
    # Of a checkpoint: episodes that the run had trained until then.
    episodes: int = 0

    @property
    def key(self) -> str:
        """The object key in S3."""
        return artifact_key(self.digest)

    @property
    def file(self) -> Path:
        """The file to upload."""
        return Path(self.link or self.path)

    def fact(self) -> ArtifactProduced:
        """The fact to record once it is stored."""
        return ArtifactProduced(
            attempt=self.attempt,
            kind=self.kind,
            name=self.name,
            digest=self.digest,
            size=self.size,
            key=self.key,
            step=self.step,
            meta={name: to_value(value) for name, value in self.meta.items()},
            episodes=self.episodes,
        )


class Intents:
    """The folder of intents: `<id>.json`, or a line of `<id of the first>.jsonl` for those that were accepted
    together, and `<id>` for the link to the file."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # By intent that shares a file: that file, and the ids in it that are not forgotten.
        self._shared: dict[str, tuple[Path, set[str]]] = {}
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)

    def examine(
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
        """Check, hash and link the file of an artifact line; `keep` makes the intent durable. Blocks.

        Raises UploadRefusedError. None when `unless` has its path and digest: that file was accepted before.
        """
        path = resolve_inside(str(event["path"]), run_dir)
        if is_download(str(path.relative_to(run_dir.resolve()))):
            raise UploadRefusedError("the worker fetched it for this run: it is stored already")
        link = self._folder / new_ulid()
        descriptor = open_plain(path, run_dir)
        try:
            self._refuse_other_names(os.fstat(descriptor))
            digest, size = fingerprint(descriptor, redact)
            if not size and event["kind"] in LOADABLE:
                raise UploadRefusedError("it is empty: nothing can be loaded from it")
            if (str(path), digest) in unless:
                return None
            linked = _link(descriptor, link)
        finally:
            os.close(descriptor)
        kind = redact(str(event["kind"]))[:MAX_NAME_LENGTH]
        return Intent(
            id=link.name,
            run_id=run_id,
            attempt=attempt,
            kind=kind,
            name=redact(str(event.get("name") or path.relative_to(run_dir.resolve())))[:MAX_NAME_LENGTH],
            path=str(path),
            link=str(link) if linked else "",
            digest=digest,
            size=size,
            step=parse_step(event.get("step")),
            meta=clean_meta(event.get("meta"), redact),
            after=after,
            episodes=parse_step(event.get("episodes")) if kind == CHECKPOINT else 0,
        )

    def _refuse_other_names(self, about: os.stat_result) -> None:
        """A file with another name may be another run's, or the worker's. Links of the worker are no such."""
        if about.st_nlink > 1 and about.st_nlink > 1 + self._links_to(about.st_ino):
            raise UploadRefusedError("it has other names (hard links): write a copy of its own")

    def _links_to(self, inode: int) -> int:
        with os.scandir(self._folder) as entries:
            return sum(entry.inode() == inode for entry in entries)

    def forget(self, intents: Sequence[Intent]) -> None:
        """Remove intents and their links. Blocks."""
        shared: dict[Path, list[str]] = {}
        for intent in intents:
            path, left = self._shared.pop(intent.id, (None, set()))
            if path is None:
                (self._folder / f"{intent.id}.json").unlink(missing_ok=True)
            else:
                left.discard(intent.id)
                shared.setdefault(path, []).append(intent.id)
                if not left:
                    path.unlink(missing_ok=True)
        for path, ids in shared.items():
            if path.exists():
                with path.open("a") as file:
                    file.writelines(json.dumps({"forgotten": each}) + "\n" for each in ids)
        for intent in intents:
            (self._folder / intent.id).unlink(missing_ok=True)

    def left(self) -> list[Intent]:
        """Intents that an earlier process has not finished, oldest first; stray links are removed."""
        paths = sorted(self._folder.iterdir())
        found = []
        for path in paths:
            if path.suffix == ".json":
                found += _read(path)
            elif path.suffix == ".jsonl":
                found += self._share(path, _read_lines(path))
        known = {intent.id for intent in found}
        for path in paths:
            if path.suffix not in (".json", ".jsonl") and path.name not in known:
                path.unlink()
        return found

    def run_ids(self) -> set[str]:
        """Runs that have files to upload. Blocks."""
        single = (each for path in self._folder.glob("*.json") for each in _read(path))
        shared = (each for path in self._folder.glob("*.jsonl") for each in _read_lines(path))
        return {intent.run_id for intent in (*single, *shared)}

    def _share(self, path: Path, intents: list[Intent]) -> list[Intent]:
        ids = {intent.id for intent in intents}
        self._shared |= dict.fromkeys(ids, (path, ids))
        return intents

    def keep(self, intents: Sequence[Intent]) -> None:
        """Write intents to the disk, all of them or none. Blocks."""
        if not intents:
            return
        suffix = ".json" if len(intents) == 1 else ".jsonl"
        draft = self._folder / f"{intents[0].id}.tmp"
        with draft.open("w") as file:
            file.writelines(json.dumps(asdict(intent)) + "\n" for intent in intents)
            file.flush()
            os.fsync(file.fileno())
        draft.rename(draft.with_suffix(suffix))
        if len(intents) > 1:
            self._share(draft.with_suffix(suffix), list(intents))
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read_lines(path: Path) -> list[Intent]:
    """The intents of a shared file that are not forgotten."""
    found: dict[str, Intent] = {}
    for line in path.read_text(errors="replace").splitlines():
        try:
            entry = json.loads(line)
            if "forgotten" in entry:
                found.pop(entry["forgotten"], None)
            else:
                found[entry["id"]] = Intent(**entry)
        except (ValueError, TypeError, KeyError) as error:
            # The mark that was being written at a kill, or damage from outside.
            log.error("upload.unreadable", path=str(path), error=str(error))
    return list(found.values())


def _read(path: Path) -> list[Intent]:
    try:
        return [Intent(**json.loads(path.read_text()))]
    except FileNotFoundError:
        return []  # uploaded meanwhile
    except (ValueError, TypeError) as error:
        # Writes are atomic, so this is damage from outside: keep the file and log it.
        log.error("upload.unreadable", path=str(path), error=str(error))
        return []


def resolve_inside(given: str, run_dir: Path) -> Path:
    """The path in the run's directory that a trainer means, symlinks resolved. Raises UploadRefusedError."""
    root = run_dir.resolve()
    try:
        path = (root / given).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UploadRefusedError(f"this path cannot be resolved: {error}") from error
    if not path.is_relative_to(root):
        raise UploadRefusedError("it lies outside the run's directory: write it inside")
    return path


def open_plain(path: Path, run_dir: Path) -> int:
    """A descriptor of a regular file of the run, and of nothing that was put in its place.

    Raises UploadRefusedError.
    """
    try:
        with opened_folder(run_dir) as root:
            return open_regular(root, str(path.relative_to(run_dir.resolve())))
    except NotBeneathError as error:
        raise UploadRefusedError(f"{error.strerror}: announce a file, and do not move its folders") from error
    except OSError as error:
        what = str(error.strerror)
        hint = ": pack a directory into one file first" if "not a regular file" in what else ""
        raise UploadRefusedError(f"{what}{hint}") from error


def open_intent(intent: Intent) -> BinaryIO:
    """The file of an intent, to be stored: its link, or the announced path without a symlink. Blocks.

    Raises OSError.
    """
    with opened_folder(Path("/")) as root:
        return os.fdopen(open_regular(root, str(intent.file.absolute()).lstrip("/")), "rb")


def fingerprint(descriptor: int, redact: Redactor) -> tuple[str, int]:
    """SHA-256 and size; refuses a file with a secret in plain sight. Raises UploadRefusedError."""
    digest, size, before = hashlib.sha256(), 0, b""
    while data := os.read(descriptor, CHUNK):
        digest.update(data)
        size += len(data)
        if name := redact.found_in(before + data):
            raise UploadRefusedError(f"it holds the value of secret {name}")
        before = data[-redact.longest :] if redact.longest else b""
    return digest.hexdigest(), size


def digest_of(path: Path) -> str:
    """SHA-256 of a file. Blocks."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def parse_step(value: object) -> int:
    """The step of an artifact line; 0 when it is not a valid one."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63:
        return value
    return 0


def clean_meta(meta: object, redact: Redactor) -> dict[str, Any]:
    """The `meta` of an artifact line without secrets; dropped when it is too large."""
    if not isinstance(meta, dict):
        return {}
    text = redact(json.dumps(meta))
    if len(text) > MAX_META_BYTES:
        return {"dropped": f"meta of {len(text)} bytes, more than the {MAX_META_BYTES} accepted"}
    try:
        cleaned: dict[str, Any] = json.loads(text)
    except ValueError:
        return {"dropped": "meta could not be kept without a secret"}
    return cleaned


def to_value(plain: object) -> Value:
    """A JSON value as a Value message; null becomes an empty one."""
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


def _link(descriptor: int, link: Path) -> bool:
    """Hard-link the file that was hashed; False when the file system cannot."""
    try:
        link_descriptor(descriptor, link.parent, link.name)
    except OSError:
        # Another file system, or one without links, or a file without a name: the announced path is used.
        return False
    return True

"""Announced artifacts that are not collected yet, on disk: a killed worker loses none of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from runspine.services.worker.protocol.redact import Redactor

log = structlog.get_logger()


class PendingArtifacts:
    """Those of one attempt: a line for each announcement, and one more when it is collected."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.jsonl"
        self._count = 0

    def add(self, event: Mapping[str, Any], after: int, redact: Redactor) -> int:
        """Write an announcement without secrets, with the batch that precedes it; its number."""
        self._count += 1
        self._append({"number": self._count, "after": after, "event": redact(json.dumps(event))})
        return self._count

    def done(self, *numbers: int) -> None:
        """Mark announcements as collected."""
        self._append(*({"done": number} for number in numbers))

    def left(self) -> list[tuple[dict[str, Any], int]]:
        """Announcements that are not collected, oldest first, each with the batch that precedes it."""
        waiting: dict[int, tuple[dict[str, Any], int]] = {}
        try:
            lines = self._path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []
        for line in lines:
            try:
                entry = json.loads(line)
                if "done" in entry:
                    waiting.pop(entry["done"], None)
                else:
                    waiting[entry["number"]] = json.loads(entry["event"]), entry.get("after", 0)
            except (ValueError, KeyError, TypeError):
                # Torn by a kill, or redacting a secret broke the JSON.
                log.warning("announcement.unreadable", path=str(self._path))
        return list(waiting.values())

    def remove(self) -> None:
        """Delete the file."""
        self._path.unlink(missing_ok=True)

    def _append(self, *entries: dict[str, Any]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, b"".join(json.dumps(entry).encode() + b"\n" for entry in entries))
            finally:
                os.close(descriptor)
        except OSError as error:
            # A full disk: the file itself is still collected, unless the worker is killed before.
            log.warning("announcement.not_noted", path=str(self._path), error=str(error))

"""Artifact lines that were read and not yet handed in, on disk: a killed worker forgets none of them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import structlog

from services.worker.redact import Redactor

log = structlog.get_logger()


class Announced:
    """One attempt's: a line for each announcement, and one more when it is done with."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.jsonl"
        self._count = 0

    def add(self, event: Mapping[str, Any], after: int, redact: Redactor) -> int:
        """Write it down, without secrets, and after which batch it was said; its number."""
        self._count += 1
        self._append({"number": self._count, "after": after, "event": redact(json.dumps(event))})
        return self._count

    def done(self, number: int) -> None:
        self._append({"done": number})

    def left(self) -> list[tuple[dict[str, Any], int]]:
        """Those that nobody is done with, oldest first, each with the batch before it."""
        waiting: dict[int, tuple[dict[str, Any], int]] = {}
        try:
            lines = self._path.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return []
        for line in lines:
            try:
                said = json.loads(line)
                if "done" in said:
                    waiting.pop(said["done"], None)
                else:
                    waiting[said["number"]] = json.loads(said["event"]), said.get("after", 0)
            except (ValueError, KeyError, TypeError):
                # Torn by the kill, or a secret stood where JSON needs something else.
                log.warning("announcement.unreadable", path=str(self._path))
        return list(waiting.values())

    def remove(self) -> None:
        self._path.unlink(missing_ok=True)

    def _append(self, said: dict[str, Any]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            try:
                os.write(descriptor, json.dumps(said).encode() + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            # A full disk: the file itself is still handed in, unless we are killed before.
            log.warning("announcement.not_noted", path=str(self._path), error=str(error))

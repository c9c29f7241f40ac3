"""The file of access tokens: names, digests, scopes and ends. Imports nothing heavy, for the CLI."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

SCOPES = ("read", "run", "admin")
# Containers read the file as another user; it holds digests only.
SHARED = 0o644
MAX_NAME_LENGTH = 64


class TokenFileError(Exception):
    """The file cannot be read, or an entry is wrong."""


@dataclass(frozen=True, slots=True)
class Token:
    """A token by its digest, with its name, scope, end and revocation. Times are Unix seconds; 0 is never."""

    name: str
    sha256: str
    scope: str
    expires: float = 0.0
    revoked: float = 0.0

    def refusal(self, now: float) -> str:
        """Why it is refused at this time; empty while it is valid."""
        if self.revoked:
            return f"token {self.name!r} was revoked on {day(self.revoked)}: ask the operator for a new one"
        if self.expires and now >= self.expires:
            return f"token {self.name!r} has expired on {day(self.expires)}: ask the operator for a new one"
        return ""


def day(seconds: float) -> str:
    """A time for people, to the minute."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M UTC")


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def parse_tokens(text: str) -> list[Token]:
    """Tokens of a JSON list of {name, sha256, scope, expires, revoked}; the last two are optional ISO times.

    Raises TokenFileError, which names the entry. Unknown keys are ignored: a newer file stays readable.
    """
    try:
        entries = json.loads(text)
    except ValueError as error:
        raise TokenFileError(f"not JSON: {error}") from error
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise TokenFileError("not a list of {name, sha256, scope}")
    return [_token(number, entry) for number, entry in enumerate(entries)]


def _token(number: int, entry: dict[str, Any]) -> Token:
    missing = [key for key in ("name", "sha256", "scope") if not isinstance(entry.get(key), str)]
    if missing:
        raise TokenFileError(f"entry {number} lacks {', '.join(missing)}")
    if entry["scope"] not in SCOPES:
        raise TokenFileError(f"entry {number}: scope {entry['scope']!r} is not one of {SCOPES}")
    times = [_seconds(number, entry, key) for key in ("expires", "revoked")]
    return Token(entry["name"], entry["sha256"], entry["scope"], *times)


def _seconds(number: int, entry: dict[str, Any], key: str) -> float:
    if not entry.get(key):
        return 0.0
    try:
        found = datetime.fromisoformat(entry[key])
    except (TypeError, ValueError) as error:
        raise TokenFileError(f"entry {number}: {key} {entry[key]!r} is not an ISO time") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


class TokenFile:
    """Changes of a tokens file: one at a time, each written as a whole."""

    def __init__(self, path: Path, mode: int = SHARED) -> None:
        self.path = path
        self._mode = mode

    def tokens(self) -> list[Token]:
        """All tokens; none when there is no file. Raises TokenFileError."""
        return parse_tokens(self._text())

    def add(self, name: str, token: str, scope: str, expires: float = 0.0) -> bool:
        """Add a token in place of the one of that name. False when it is there already, or was revoked."""
        digest = digest_of(token)
        with self._changing() as entries:
            if any(entry["name"] == name and entry["sha256"] == digest for entry in entries):
                return False
            end = {"expires": _iso(expires)} if expires else {}
            entries[:] = [entry for entry in entries if entry["name"] != name]
            entries.append({"name": name, "sha256": digest, "scope": scope, **end})
        return True

    def revoke(self, name: str, now: float) -> bool:
        """Mark the token of this name as revoked. False when there is none. The entry stays, so that nothing
        adds the same token again."""
        found = False
        with self._changing() as entries:
            for entry in entries:
                if entry["name"] == name:
                    found = True
                    entry.setdefault("revoked", _iso(now))
        return found

    def is_revoked(self, token: str) -> bool:
        digest = digest_of(token)
        return any(one.sha256 == digest and one.revoked for one in self.tokens())

    def _text(self) -> str:
        try:
            return self.path.read_text()
        except FileNotFoundError:
            return "[]"
        except OSError as error:
            raise TokenFileError(f"{self.path}: {error.strerror}") from error

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[dict[str, Any]]]:
        """The entries, written back when they have changed. Other processes wait."""
        if not self.path.parent.exists():
            self.path.parent.mkdir(parents=True)
            self.path.parent.chmod(0o755 if self._mode == SHARED else 0o700)
        lock = self.path.with_name(f".{self.path.name}.lock")
        with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "w") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            before = self._text()
            parse_tokens(before)
            entries = json.loads(before)
            yield entries
            if entries != json.loads(before):
                self._write(json.dumps(entries, indent=1) + "\n")

    def _write(self, text: str) -> None:
        draft = self.path.with_name(f".{self.path.name}.draft")
        mode = self.path.stat().st_mode & 0o777 if self.path.exists() else self._mode
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(mode)
        draft.replace(self.path)


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")

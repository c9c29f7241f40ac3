"""Login by token: kept in an HttpOnly cookie, checked against RUNSPINE_TOKENS_FILE."""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass
from pathlib import Path

from runspine.rpc.auth import SCOPES, Token

COOKIE = "runspine_token"
COOKIE_SECONDS = 365 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Person:
    name: str
    scope: str
    token: str

    @property
    def may_run(self) -> bool:
        return self.scope != "read"


class Login:
    """Maps a token to its person. Without a tokens file everybody is admitted."""

    def __init__(self, tokens_file: Path | None) -> None:
        self._tokens = None if tokens_file is None else _read(tokens_file)

    @property
    def is_open(self) -> bool:
        return self._tokens is None

    def person(self, token: str) -> Person | None:
        if self._tokens is None:
            return Person("", "admin", token)
        given = hashlib.sha256(token.encode()).hexdigest()
        found = None
        for known in self._tokens:
            if hmac.compare_digest(known.sha256, given):
                found = Person(known.name, known.scope, token)
        return found


def _read(path: Path) -> list[Token]:
    try:
        tokens = [Token(**entry) for entry in json.loads(path.read_text())]
    except (OSError, ValueError, TypeError) as error:
        raise SystemExit(f"RUNSPINE_TOKENS_FILE {path}: {error}") from error
    for token in tokens:
        if token.scope not in SCOPES:
            raise SystemExit(f"RUNSPINE_TOKENS_FILE: scope {token.scope!r} is not one of {SCOPES}")
    return tokens

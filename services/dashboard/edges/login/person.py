"""The person behind a token of RUNSPINE_TOKENS_FILE."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from runspine.rpc.token_file import digest_of
from runspine.rpc.token_store import TokenStore


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
        self._tokens = None if tokens_file is None else TokenStore(tokens_file)

    @property
    def is_open(self) -> bool:
        return self._tokens is None

    def person(self, token: str) -> Person | None:
        if self._tokens is None:
            return Person("", "admin", token)
        known = self._tokens.find(token)
        if known is None or known.refusal(time.time()):
            return None
        return Person(known.name, known.scope, token)

    def refusal(self, token: str) -> str:
        """Why a token is refused now; empty while it is valid."""
        return "" if self._tokens is None else self._tokens.refusal(digest_of(token))

"""Tokens as a service checks them: the file is read again when it has changed, without a restart."""

from __future__ import annotations

import hmac
import time
from pathlib import Path

import structlog

from runspine.rpc.token_file import Token, TokenFileError, digest_of, parse_tokens

log = structlog.get_logger()

# Together with the time of one check this bounds how long a revoked token is accepted.
CHECK_SECONDS = 0.25
# A change within the clock tick of the one before leaves the file's time as it was: read again so long.
SETTLED_SECONDS = 2.0


class TokenStore:
    """The tokens of a file. One that cannot be read leaves the last good ones in force, and is logged."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, ...] = ()
        self._settled = False
        self._next_check = 0.0
        self._tokens: list[Token] = []
        self.trouble = ""
        self._refresh()
        if self.trouble:
            raise SystemExit(f"{self.trouble}; make it with `runspine secrets`")

    def find(self, text: str) -> Token | None:
        """The token with this text, revoked and expired ones included; ask `refusal` of it."""
        return self.find_digest(digest_of(text))

    def find_digest(self, digest: str) -> Token | None:
        self._refresh()
        found = None
        for token in self._tokens:
            if hmac.compare_digest(token.sha256, digest):
                found = token
        return found

    def refusal(self, digest: str) -> str:
        """Why the token of this digest is refused now; empty while it is valid."""
        token = self.find_digest(digest)
        return (
            "the token was removed: ask the operator for a new one"
            if token is None
            else token.refusal(time.time())
        )

    def _refresh(self) -> None:
        now = time.monotonic()
        if now < self._next_check:
            return
        self._next_check = now + CHECK_SECONDS
        try:
            found = self._path.stat()
            seen = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
            if seen == self._seen and self._settled:
                return
            self._tokens = parse_tokens(self._path.read_text())
        except (OSError, ValueError, TokenFileError) as error:
            trouble = f"RUNSPINE_TOKENS_FILE {self._path}: {error}"
            if trouble != self.trouble:
                log.error("tokens.unreadable", problem=trouble)
            self.trouble, self._seen = trouble, ()
            return
        if seen != self._seen:
            log.info("tokens.read", tokens=len(self._tokens))
        self._seen, self.trouble = seen, ""
        self._settled = time.time() - found.st_mtime > SETTLED_SECONDS

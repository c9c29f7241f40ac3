"""Records of sessions on disk, so that a restart logs nobody out. Each is useless without its cookie."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

NONCE_BYTES = 12


@dataclass(frozen=True, slots=True)
class StoredSession:
    """What a record holds. The browser and the login's time are bound to it: they cannot be changed."""

    token: str
    browser: str
    created: float
    seen: float


def key_of(identifier: str) -> str:
    """The name of a session's record. The identifier cannot be found from it."""
    return hashlib.sha256(f"runspine session {identifier}".encode()).hexdigest()


class SessionFiles:
    """One file for each session. Its token is encrypted with a key derived from the cookie's identifier,
    which is stored nowhere."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._folder = folder

    def write(self, identifier: str, stored: StoredSession) -> None:
        nonce = secrets.token_bytes(NONCE_BYTES)
        sealed = _cipher(identifier).encrypt(
            nonce, stored.token.encode(), _bound(stored.browser, stored.created)
        )
        record = {
            "browser": stored.browser,
            "created": stored.created,
            "seen": stored.seen,
            "token": base64.b64encode(nonce + sealed).decode(),
        }
        path = self._path(key_of(identifier))
        draft = path.with_suffix(".draft")
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(record, file)
        draft.replace(path)

    def read(self, identifier: str) -> StoredSession | None:
        """The record of this identifier; None when there is none, or it was changed."""
        try:
            record = json.loads(self._path(key_of(identifier)).read_text())
            sealed = base64.b64decode(record["token"])
            browser, created, seen = str(record["browser"]), float(record["created"]), float(record["seen"])
            token = _cipher(identifier).decrypt(
                sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _bound(browser, created)
            )
        except (OSError, ValueError, KeyError, TypeError, InvalidTag):
            return None
        return StoredSession(token.decode(), browser, created, seen)

    def remove(self, key: str) -> None:
        self._path(key).unlink(missing_ok=True)

    def sweep(self, oldest: float, idle_since: float) -> None:
        """Remove records of logins before `oldest`, and of those not seen since `idle_since`."""
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                record = json.loads(path.read_text())
                if float(record["created"]) > oldest and float(record["seen"]) > idle_since:
                    continue
            path.unlink(missing_ok=True)

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.json"


def _cipher(identifier: str) -> AESGCM:
    derived = HKDF(SHA256(), 32, salt=None, info=b"runspine session token").derive(identifier.encode())
    return AESGCM(derived)


def _bound(browser: str, created: float) -> bytes:
    return json.dumps([browser, created]).encode()

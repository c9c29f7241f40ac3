"""Invitations and hosts of a stack, in one folder of its home that only its owner can read."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspine.embedded.home import Home, read_json, write_json
from runspine.errors import RunspineError
from runspine.hosts.authority import GATEWAY, fingerprint, issue_host, prepare_authority
from runspine.hosts.credentials import worker_variables

ACTIVE, DRAINING, REVOKED = "active", "draining", "revoked"
SECRET_BYTES = 16


class HostError(RunspineError):
    """A host or an invitation that cannot be used; the message states why."""


@dataclass(frozen=True, slots=True)
class Host:
    """A machine that has joined."""

    name: str
    fingerprint: str
    state: str
    joined_at: float


class HostRegister:
    """Reads and changes the folder; each change holds its lock."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self.folder = home.path / "hosts"

    @property
    def links_file(self) -> Path:
        """Which hosts are connected, as the gateway writes it."""
        return self.folder / "links.json"

    def prepare(self, address: str) -> None:
        """Make the authority, and note where the gateway listens."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        prepare_authority(self.folder)
        write_json(self.folder / "gateway.json", {"address": address})

    def address(self) -> str:
        """Where the gateway listens. Raises HostError."""
        found = read_json(self.folder / "gateway.json")
        if found is None:
            raise HostError(
                "this stack listens to no other machine: start it with runspine up --listen ADDRESS"
            )
        return str(found["address"])

    def invite(self, name: str, seconds: float, variables: dict[str, str]) -> str:
        """The token of a new invitation, good once. Everything that the host gets is made now, so that the
        gateway needs neither the authority's key nor the root key of the log."""
        self.address()
        secret = secrets.token_bytes(SECRET_BYTES)
        with self._changing() as stored:
            if stored["hosts"].get(name, {}).get("state", REVOKED) != REVOKED:
                raise HostError(
                    f"{name} has joined already: runspine hosts rm {name}, or choose another name"
                )
            certificate, key = issue_host(self.folder, name)
            bundle = {
                "name": name,
                "certificate": certificate,
                "key": key,
                "authority": (self.folder / "authority.crt").read_text(),
                "variables": {**worker_variables(self._home, name), **variables},
            }
            now = time.time()
            stored["invitations"] = {k: v for k, v in stored["invitations"].items() if v["expires"] > now}
            stored["invitations"][_digest(secret)] = {"expires": now + seconds, "bundle": bundle}
        pinned = bytes.fromhex(fingerprint((self.folder / GATEWAY).read_text()))
        return (pinned + secret).hex()

    def accept(self, secret: bytes) -> dict[str, Any]:
        """Enrol a host: its bundle, once. Raises HostError."""
        with self._changing() as stored:
            found = stored["invitations"].pop(_digest(secret), None)
            if found is None or found["expires"] <= time.time():
                raise HostError("this invitation has expired, was used or never was: ask for another one")
            bundle: dict[str, Any] = found["bundle"]
            stored["hosts"][bundle["name"]] = {
                "fingerprint": fingerprint(bundle["certificate"]),
                "state": ACTIVE,
                "joined_at": time.time(),
            }
        return bundle

    def hosts(self) -> list[Host]:
        stored = self._read()
        return [Host(name, **stored["hosts"][name]) for name in sorted(stored["hosts"])]

    def set_state(self, name: str, state: str) -> None:
        """Raises HostError."""
        with self._changing() as stored:
            if name not in stored["hosts"]:
                raise HostError(f"no host is called {name}: runspine hosts ls shows them")
            if stored["hosts"][name]["state"] == REVOKED and state != REVOKED:
                raise HostError(f"{name} was removed: invite it again")
            stored["hosts"][name]["state"] = state

    def changed_at(self) -> int:
        """Changes whenever the register does."""
        try:
            return (self.folder / "register.json").stat().st_mtime_ns
        except FileNotFoundError:
            return 0

    def _read(self) -> dict[str, Any]:
        return read_json(self.folder / "register.json") or {"invitations": {}, "hosts": {}}

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        lock = os.open(self.folder / "register.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            stored = self._read()
            before = json.dumps(stored)
            yield stored
            if json.dumps(stored) != before:
                write_json(self.folder / "register.json", stored)
        finally:
            os.close(lock)


def _digest(secret: bytes) -> str:
    return hashlib.sha256(secret).hexdigest()


def split_token(token: str) -> tuple[str, bytes]:
    """Fingerprint of the gateway's certificate, and the secret of the invitation. Raises HostError."""
    try:
        given = bytes.fromhex(token.strip())
    except ValueError:
        given = b""
    if len(given) != 32 + SECRET_BYTES:
        raise HostError(
            "this is no token of an invitation: copy the whole line that `runspine hosts invite` printed"
        )
    return given[:32].hex(), given[32:]

"""Passwords, keys and the token of an embedded stack: made once, kept for its owner alone."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

from runspine.bucket_rights import SERVICES, Key
from runspine.embedded.home import Home, HomeUnusable, read_json, write_json
from runspine.log.permissions import USERS


@dataclass(frozen=True, slots=True)
class Credentials:
    nats: dict[str, str]
    # Of people and of the supervisor; a service has a key of its own.
    s3_access_key: str
    s3_secret_key: str
    s3_signing_key: str
    token: str
    # Of the web page, with which it follows all runs; it may look only.
    page_token: str
    s3_keys: dict[str, Key]


def load_credentials(home: Home) -> Credentials:
    """Those of this home; what is missing is made, what exists is kept."""
    stored = read_json(home.credentials_file)
    if stored is None:
        stored = {}
    elif not isinstance(stored, dict):
        raise HomeUnusable(f"{home.credentials_file} is not what it should be; remove it to get new ones")
    elif home.credentials_file.stat().st_mode & 0o077:
        raise HomeUnusable(
            f"{home.credentials_file} can be read by other users: remove it to have new ones made, "
            f"or chmod 600 {home.credentials_file} when they may be trusted still"
        )
    complete = _completed(stored)
    if complete != stored:
        write_json(home.credentials_file, complete)
    _write_tokens(home, complete["token"], complete["page_token"])
    return Credentials(
        nats={name: complete["nats"][name] for name in USERS},
        s3_access_key=complete["s3"]["access_key"],
        s3_secret_key=complete["s3"]["secret_key"],
        s3_signing_key=complete["s3"]["signing_key"],
        token=complete["token"],
        page_token=complete["page_token"],
        s3_keys={name: Key(*complete["s3"]["services"][name]) for name in SERVICES},
    )


def _completed(stored: dict[str, Any]) -> dict[str, Any]:
    return {
        **stored,
        "nats": {name: secrets.token_hex(24) for name in USERS} | stored.get("nats", {}),
        "s3": {
            "access_key": secrets.token_hex(10),
            "secret_key": secrets.token_hex(24),
            "signing_key": secrets.token_hex(32),
        }
        | stored.get("s3", {})
        | {"services": _service_keys() | stored.get("s3", {}).get("services", {})},
        "token": stored.get("token") or secrets.token_urlsafe(32),
        "page_token": stored.get("page_token") or secrets.token_urlsafe(32),
    }


def _service_keys() -> dict[str, list[str]]:
    return {name: [f"{name}-{secrets.token_hex(6)}", secrets.token_hex(24)] for name in SERVICES}


def _write_tokens(home: Home, token: str, page_token: str) -> None:
    """The services get to know the tokens' digests only. Tokens that a person added are kept."""
    own = [_entry("local", token, "admin"), _entry("dashboard", page_token, "read")]
    names = {entry["name"] for entry in own}
    stored = read_json(home.tokens_file) or []
    wanted = [*own, *(entry for entry in stored if entry.get("name") not in names)]
    if wanted != stored:
        write_json(home.tokens_file, wanted)


def _entry(name: str, token: str, scope: str) -> dict[str, str]:
    return {"name": name, "sha256": hashlib.sha256(token.encode()).hexdigest(), "scope": scope}

"""Passwords, keys and tokens of an embedded stack: created once, readable by the owner only."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from typing import Any

from runspine.embedded.home import Home, HomeUnusableError, read_json, write_json
from runspine.eventlog.permissions import USERS
from runspine.storage.bucket_rights import SERVICES, S3Key


@dataclass(frozen=True, slots=True)
class Credentials:
    """Secrets of one home."""

    nats: dict[str, str]
    # For people and the supervisor; each service has its own key.
    s3_access_key: str
    s3_secret_key: str
    s3_signing_key: str
    token: str
    # For the dashboard to follow all runs, with the scope `read`.
    page_token: str
    s3_keys: dict[str, S3Key]


def load_credentials(home: Home) -> Credentials:
    """The credentials of a home; missing ones are created, existing ones kept."""
    stored = read_json(home.credentials_file)
    if stored is None:
        stored = {}
    elif not isinstance(stored, dict):
        raise HomeUnusableError(f"{home.credentials_file} is not valid; remove it to get new ones")
    elif home.credentials_file.stat().st_mode & 0o077:
        raise HomeUnusableError(
            f"{home.credentials_file} can be read by other users: remove it to get new ones, "
            f"or chmod 600 {home.credentials_file} if they can still be trusted"
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
        s3_keys={name: S3Key(*complete["s3"]["services"][name]) for name in SERVICES},
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
    """Write the digests of the tokens for the services. Tokens that a user added are kept."""
    own = [_entry("local", token, "admin"), _entry("dashboard", page_token, "read")]
    names = {entry["name"] for entry in own}
    stored = read_json(home.tokens_file) or []
    wanted = [*own, *(entry for entry in stored if entry.get("name") not in names)]
    if wanted != stored:
        write_json(home.tokens_file, wanted)


def _entry(name: str, token: str, scope: str) -> dict[str, str]:
    return {"name": name, "sha256": hashlib.sha256(token.encode()).hexdigest(), "scope": scope}

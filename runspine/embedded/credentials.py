"""Passwords, keys and tokens of an embedded stack: created once, readable by the owner only."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from runspine.clock import now_micros
from runspine.embedded.home import Home, HomeUnusableError, read_json, write_json
from runspine.eventlog.permissions import USERS
from runspine.eventlog.signing import PREFIXES, SigningKey, new_signing_key
from runspine.rpc.token_file import TokenFile, TokenFileError
from runspine.storage.bucket_rights import SERVICES, S3Key

# The stack's own tokens by their key in the credentials: name and scope. One that was revoked is replaced.
OWN = {"token": ("local", "admin"), "page_token": ("dashboard", "read"), "notices_token": ("notices", "run")}


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
    # For the notices service to carry actions out, with the scope `run`.
    notices_token: str
    s3_keys: dict[str, S3Key]
    # Public keys of the roots that are trusted, the private key of the own one, and a signing key by service.
    log_root: str
    root_key: str
    signing: dict[str, str]


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
    tokens, root = TokenFile(home.tokens_file, mode=0o600), load_root(home)
    try:
        usable = {k: v for k, v in stored.items() if k not in OWN or not tokens.is_revoked(v)}
        complete = _completed(usable, root)
        if complete != stored:
            write_json(home.credentials_file, complete)
        for key, (name, scope) in OWN.items():
            tokens.add(name, complete[key], scope)
    except (OSError, TokenFileError) as error:
        raise HomeUnusableError(f"{home.tokens_file}: {error}; remove it, and it is written again") from error
    return Credentials(
        nats={name: complete["nats"][name] for name in USERS},
        s3_access_key=complete["s3"]["access_key"],
        s3_secret_key=complete["s3"]["secret_key"],
        s3_signing_key=complete["s3"]["signing_key"],
        token=complete["token"],
        page_token=complete["page_token"],
        notices_token=complete["notices_token"],
        s3_keys={name: S3Key(*complete["s3"]["services"][name]) for name in SERVICES},
        log_root=",".join(complete["signing"]["roots"]),
        root_key=f"{root}:",
        signing={name: complete["signing"]["keys"][name] for name in PREFIXES},
    )


def load_root(home: Home) -> str:
    """The private root key of the log, in hex; made once."""
    stored = read_json(home.root_key_file)
    if stored is None:
        stored = {"root_key": secrets.token_hex(32)}
        write_json(home.root_key_file, stored)
    return str(stored["root_key"])


def trust_roots(home: Home, publics: Iterable[bytes]) -> None:
    """Trust the roots of a log that was restored into this home, in addition to its own."""
    load_credentials(home)
    stored = read_json(home.credentials_file)
    known = stored["signing"]["roots"]
    stored["signing"]["roots"] = [*known, *(p.hex() for p in publics if p.hex() not in known)]
    write_json(home.credentials_file, stored)


def _completed(stored: dict[str, Any], root: str) -> dict[str, Any]:
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
        "notices_token": stored.get("notices_token") or secrets.token_urlsafe(32),
        "signing": _signing(stored.get("signing", {}), SigningKey(bytes.fromhex(root))),
    }


def _signing(stored: dict[str, Any], root: SigningKey) -> dict[str, Any]:
    """Signing keys under the root. When that is another one than before, keys are made again under it."""
    roots = stored.get("roots", [])
    keys = stored.get("keys", {}) if root.public.hex() in roots[:1] else {}
    made = {name: new_signing_key(root, name, now_micros()) for name in PREFIXES if name not in keys}
    others = [public for public in roots if public != root.public.hex()]
    return {"roots": [root.public.hex(), *others], "keys": {**keys, **made}}


def _service_keys() -> dict[str, list[str]]:
    return {name: [f"{name}-{secrets.token_hex(6)}", secrets.token_hex(24)] for name in SERVICES}

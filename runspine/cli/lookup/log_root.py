"""The root key of the log: its public part to verify with, its private part to introduce and revoke keys."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from runspine.errors import RefusedError

if TYPE_CHECKING:
    from runspine.eventlog.signing import Keyring, SigningKey


def trusted_keyring() -> Keyring | None:
    """The keyring of RUNSPINE_LOG_ROOT, else of the stack in RUNSPINE_HOME; None where neither is known."""
    from runspine.eventlog.signing import Keyring

    roots = os.environ.get("RUNSPINE_LOG_ROOT", "")
    if not roots and not os.environ.get("RUNSPINE_ADDRESS"):
        roots = ",".join(_home_roots())
    return Keyring.parse(roots) if roots else None


def _home_roots() -> list[str]:
    from runspine.embedded.home import Home, default_home

    try:
        stored = json.loads(Home.at(default_home()).credentials_file.read_text())
        return [str(public) for public in stored["signing"]["roots"]]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def root_key() -> SigningKey:
    """The private root key: RUNSPINE_LOG_ROOT_KEY, else that of RUNSPINE_HOME. Raises RefusedError."""
    from runspine.embedded.credentials import load_root
    from runspine.embedded.home import Home, default_home
    from runspine.eventlog.signing import SigningKey

    given = os.environ.get("RUNSPINE_LOG_ROOT_KEY", "")
    home = Home.at(default_home())
    if not given and not home.root_key_file.exists():
        raise RefusedError(
            f"there is no root key: set RUNSPINE_LOG_ROOT_KEY (it is in the .env of `runspine secrets`), or "
            f"RUNSPINE_HOME to a home with {home.root_key_file.name}"
        )
    return SigningKey.parse(given or load_root(home))

"""Checks of the NATS servers that RUNSPINE_NATS_URL names: each must answer."""

from __future__ import annotations

import json
import socket
from urllib.parse import urlsplit

from runspine.doctor import Check

ANSWER_SECONDS = 2.0
NATS_PORT = 4222


def nats_seeds(url: str) -> list[Check]:
    """One check for each server in the setting; none when it is not set."""
    return [_seed(seed.strip()) for seed in url.split(",") if seed.strip()]


def _seed(seed: str) -> Check:
    try:
        address = urlsplit(seed)
        target = (address.hostname or "", address.port or NATS_PORT)
        with socket.create_connection(target, ANSWER_SECONDS) as connection:
            # A server that hangs accepts connections and sends nothing.
            connection.settimeout(ANSWER_SECONDS)
            with connection.makefile("rb") as lines:
                info = json.loads(lines.readline(1 << 20).partition(b" ")[2])
    except (OSError, ValueError) as error:
        return Check("nats", "warn", f"{_shown(seed)}: {error}", "check RUNSPINE_NATS_URL and this server")
    return Check("nats", "ok", f"{_shown(seed)}: {info.get('server_name')} {info.get('version')}")


def _shown(seed: str) -> str:
    """The address without a user and password."""
    return seed.rpartition("@")[2].removeprefix("nats://").removeprefix("tls://")

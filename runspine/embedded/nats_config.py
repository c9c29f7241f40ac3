"""The configuration of nats-server, for the embedded stack and for deploy/nats.

`python -m runspine.embedded.nats_config` prints deploy/nats/nats.conf.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from runspine.eventlog import zones
from runspine.eventlog.permissions import USERS

MIN_SERVER = (2, 15, 1)


@dataclass(frozen=True, slots=True)
class NatsConfig:
    """Values that differ between deployments. Passwords are written as given."""

    listen: str
    monitor: str
    store_dir: str
    passwords: Mapping[str, str]
    max_file: str = "50G"


def render(config: NatsConfig) -> str:
    """The text of the file; deploy/nats/README.md explains each line."""
    accounts = _written(zones.accounts(lambda user: Verbatim(config.passwords[user])))
    return f"""\
# Written by runspine/embedded/nats_config.py; a change made here is lost.
server_name: runspine
listen: {_quoted(config.listen)}
http: {_quoted(config.monitor)}

max_payload: 1MB
max_connections: 8192
write_deadline: "10s"
feature_flags {{ js_ack_fc_v2: false }}

jetstream {{
  store_dir: {_quoted(config.store_dir)}
  sync_interval: always
  max_file: {config.max_file}
  max_mem: 64M
}}

accounts {accounts}
"""


@dataclass(frozen=True, slots=True)
class Verbatim:
    """A value that the server reads as it stands: a password from the environment."""

    text: str


def _written(value: Any, indent: str = "") -> str:
    """A value in the server's syntax; lists of short values stay on one line."""
    inner = indent + "  "
    match value:
        case Verbatim():
            return value.text
        case dict() if _is_short(value):
            return f"{{{', '.join(f'{key}: {_written(each)}' for key, each in value.items())}}}"
        case dict():
            lines = "".join(f"{inner}{key}: {_written(each, inner)}\n" for key, each in value.items())
            return f"{{\n{lines}{indent}}}"
        case list() if _is_short(value):
            return f"[{', '.join(_written(each) for each in value)}]"
        case list():
            lines = "".join(f"{inner}{_written(each, inner)}\n" for each in value)
            return f"[\n{lines}{indent}]"
        case _:
            return _quoted(value)


def _is_short(value: Any) -> bool:
    return len(json.dumps(value, default=lambda one: one.text)) < 100


def _quoted(text: str) -> str:
    # In double quotes the server reads escapes as JSON does, and does not expand $.
    return json.dumps(text, ensure_ascii=False)


def embedded_config(port: int, monitor_port: int, store_dir: str, passwords: Mapping[str, str]) -> NatsConfig:
    """Configuration of the embedded server: loopback only."""
    return NatsConfig(
        listen=f"127.0.0.1:{port}",
        monitor=f"127.0.0.1:{monitor_port}",
        store_dir=store_dir,
        passwords={name: _quoted(password) for name, password in passwords.items()},
    )


def deploy_config() -> NatsConfig:
    """Configuration of a container: listens on all interfaces, passwords from the environment."""
    return NatsConfig(
        listen="0.0.0.0:4222",
        monitor="0.0.0.0:8222",
        store_dir="/data",
        passwords={name: f"$RUNSPINE_NATS_{name.upper()}_PASSWORD" for name in USERS},
    )


if __name__ == "__main__":
    sys.stdout.write(render(deploy_config()))

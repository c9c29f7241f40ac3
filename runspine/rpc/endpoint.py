"""Addresses of the services and the token for them, from the environment or the home of a stack."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runspine.errors import InvalidError

if TYPE_CHECKING:
    from runspine.rpc.channel import Tls

TRAINER, TELEMETRY, ARTIFACTS = "127.0.0.1:50055", "127.0.0.1:50056", "127.0.0.1:50057"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Addresses of the services, of each one or several separated by commas, and how to connect to them."""

    trainer: str = TRAINER
    telemetry: str = TELEMETRY
    artifacts: str = ARTIFACTS
    token: str = field(default="", repr=False)
    # Seconds to wait for a service that does not answer; 0 when no stack is known to run.
    patience: float = 5.0
    # None: from the environment.
    tls: Tls | None = None


def home(environment: Mapping[str, str] = os.environ) -> Path:
    """The directory of the local stack."""
    return Path(environment.get("RUNSPINE_HOME") or "var")


def find_endpoint(environment: Mapping[str, str] = os.environ) -> Endpoint:
    """The endpoint from RUNSPINE_ADDRESS and related variables, else of the stack in RUNSPINE_HOME."""
    where = home(environment)
    stack = _read(where / "stack.json")
    addresses = stack.get("addresses", {})
    address = environment.get("RUNSPINE_ADDRESS", "")
    token = environment.get("RUNSPINE_TOKEN", "")
    if not token and not address:
        # A token read from disk is sent only to the stack it belongs to.
        token = str(_read(where / "credentials.json").get("token", ""))
    return Endpoint(
        trainer=address or _joined(addresses.get("orchestrator", TRAINER)),
        telemetry=environment.get("RUNSPINE_TELEMETRY_ADDRESS")
        or _joined(addresses.get("telemetry", TELEMETRY)),
        artifacts=environment.get("RUNSPINE_ARTIFACTS_ADDRESS")
        or _joined(addresses.get("artifacts", ARTIFACTS)),
        token=token,
        patience=_patience(address, stack),
    )


def _patience(address: str, stack: Mapping[str, Any]) -> float:
    """Seconds to wait: a running launcher starts a part that has ended again, slowly on a busy machine."""
    if address:
        return 5.0
    return 30.0 if _alive(stack.get("pid")) else 0.0


def _joined(addresses: str | list[str]) -> str:
    """The addresses of a service in stack.json: one, or a list."""
    return addresses if isinstance(addresses, str) else ",".join(addresses)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise InvalidError(f"{path} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise InvalidError(f"{path} cannot be read: expected an object")
    return found


def _alive(pid: object) -> bool:
    if not isinstance(pid, int) or pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True

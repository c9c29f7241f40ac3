"""One-line descriptions of facts about notices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runspine.text.values import local_time


def _by(name: str) -> str:
    return f" by {name}" if name else ""


def _tries(count: int) -> str:
    return f"{count} {'try' if count == 1 else 'tries'}"


def _failed(f: Any) -> str:
    after = "it is dead" if f.dead else f"next try at {local_time(f.retry_at)}"
    return f"notice {f.id[:12]} not accepted after {_tries(f.tries)}: {f.reason}; {after}"


DESCRIPTIONS: dict[str, Callable[[Any], str]] = {
    "notices_configured": lambda f: f"{len(f.channels)} channels and {len(f.rules)} rules of notices",
    "notice_due": lambda f: f"notice {f.id[:12]} {f.number} to {f.target} is due by {f.rule}: {f.title}",
    "notice_claimed": lambda f: f"notice {f.id[:12]} is sent by {f.holder}",
    "notice_sent": lambda f: f"notice {f.id[:12]} was accepted after {_tries(f.tries)}",
    "notice_failed": _failed,
    "notice_retry_requested": lambda f: f"notice {f.id[:12]} is to be sent again{_by(f.requested_by)}",
    "channel_test_requested": lambda f: f"test of channel {f.channel} requested{_by(f.requested_by)}",
}

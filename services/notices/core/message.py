"""The text of a notice, and the bodies that webhooks and chats take. Pure."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from datetime import UTC, datetime

from runspine.wire.v1.facts_pb2 import NoticeDue
from runspine.wire.v1.run_pb2 import Run

ID_HEADER = "X-Runspine-Notice"
TIME_HEADER = "X-Runspine-Time"
SIGNATURE_HEADER = "X-Runspine-Signature"
MAX_TITLE, MAX_DETAIL = 300, 1500
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_WORDS = {
    "started": "has started",
    "retried": "waits for another attempt",
    "completed": "has completed",
    "failed": "has failed",
    "cancelled": "was cancelled",
    "ended": "has ended",
    "stale": "is stale",
    "stalled": "has stalled",
    "disk": "has used up its disk limit",
    "nan": "has metrics that are NaN or infinite",
    "threshold": "has passed a threshold",
    "plateau": "no longer improves",
    "collapse": "has become much worse",
    "quiet": "has had no point of a metric for long",
    "test": "is a test",
}


def compose(run: Run, event: str, detail: str, rule: str) -> tuple[str, str]:
    """Title and text: one line each part, without control characters."""
    title = f"{_line(run.name or run.id, 200)} {_WORDS[event]}"
    facts = [
        _line(detail, MAX_DETAIL),
        _line(f"run {run.id}" + (f", project {run.spec.project}" if run.spec.project else ""), 300),
        f"rule {rule}",
    ]
    return title[:MAX_TITLE], "\n".join(line for line in facts if line)


def webhook_body(due: NoticeDue) -> bytes:
    found = {
        "id": due.id,
        "number": due.number,
        "event": due.event,
        "rule": due.rule,
        "run": {"id": due.run_id, "name": due.run_name},
        "at": datetime.fromtimestamp(due.caused_at / 1e6, UTC).isoformat(),
        "title": due.title,
        "text": due.text,
    }
    return json.dumps(found, ensure_ascii=False).encode()


def signature(secret: str, time: int, body: bytes) -> str:
    """HMAC-SHA-256 over the time, a dot and the body."""
    return "sha256=" + hmac.new(secret.encode(), f"{time}.".encode() + body, hashlib.sha256).hexdigest()


def chat_body(kind: str, due: NoticeDue) -> bytes:
    """What an incoming webhook of a chat takes. Names given by users mention nobody and format nothing."""
    text = f"{due.title}\n{due.text}"
    if kind == "discord":
        return json.dumps({"content": text[:2000], "allowed_mentions": {"parse": []}}).encode()
    if kind == "slack":
        escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        return json.dumps({"text": escaped, "mrkdwn": False}).encode()
    # A character without width after @ keeps @channel and names from being mentioned.
    return json.dumps({"text": text.replace("@", "@\u200b")}).encode()


def _line(text: str, limit: int) -> str:
    return _CONTROL.sub(" ", text).strip()[:limit]

"""Names of streams and subjects, and the characters of a token."""

from __future__ import annotations

import re

RUNS, ATTEMPTS, TELEMETRY, ARTIFACTS, WORK, BEATS, AUDIT, NOTICES = (
    "RUNS",
    "ATTEMPTS",
    "TELEMETRY",
    "ARTIFACTS",
    "WORK",
    "BEATS",
    "AUDIT",
    "NOTICES",
)
FACT_STREAMS = (RUNS, ATTEMPTS, ARTIFACTS)

_STREAM_OF = {
    "runs": RUNS,
    "keys": RUNS,
    "signers": RUNS,
    "attempts": ATTEMPTS,
    "workers": ATTEMPTS,
    "placements": ATTEMPTS,
    "telemetry": TELEMETRY,
    "artifacts": ARTIFACTS,
    "work": WORK,
    "beats": BEATS,
    "audit": AUDIT,
    "notices": NOTICES,
    "notice_requests": NOTICES,
}
# The orchestrator's own messages on the BEATS stream; no worker id can be equal to it.
ECHO = "beats.~"
# Beginning of the subjects of keys.
SIGNERS = "signers."
# The channels and rules of the notices service; no run id can be equal to it.
NOTICES_CONFIG = "notices.config"
# Core NATS, not stored: the janitor's holder renews its lease with a pulse.
JANITOR_PULSE = "janitor.pulse"
_TOKEN = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")


def stream_of(subject: str) -> str:
    return _STREAM_OF[subject.split(".", 1)[0]]


def is_stored(subject: str) -> bool:
    """Whether messages on the subject, or on a pattern of subjects, are stored on a stream."""
    return subject.split(".", 1)[0] in _STREAM_OF


def is_token(text: str) -> bool:
    """Whether the text can be one part of a subject."""
    return _TOKEN.match(text) is not None


def announcements(stream: str, subject: str = ">") -> str:
    """Where the server announces each message that it has stored: position and headers, no payload."""
    return f"stored.{stream}.{subject}"


def run_subject(run_id: str) -> str:
    return f"runs.{run_id}"


def signer_subject(key_id: str) -> str:
    return f"{SIGNERS}{key_id}"


def key_subject(key_digest: str) -> str:
    return f"keys.{key_digest}"


def attempts_subject(run_id: str) -> str:
    return f"attempts.{run_id}"


def placements_subject(run_id: str) -> str:
    return f"placements.{run_id}"


def worker_subject(worker_id: str) -> str:
    return f"workers.{worker_id}"


def beat_subject(worker_id: str) -> str:
    return f"beats.{worker_id}"


def work_subject(pool: str, priority: int) -> str:
    return f"work.{pool}.{priority}"


def telemetry_subject(run_id: str, attempt: int, kind: str) -> str:
    return f"telemetry.{run_id}.{attempt}.{kind}"


def frames_subject(run_id: str, slot: int | str = "*") -> str:
    return f"frames.{run_id}.{slot}"


def control_subject(run_id: str) -> str:
    return f"control.{run_id}"


def cache_subject(worker_id: str) -> str:
    return f"caches.{worker_id}"


def preflight_subject(worker_id: str) -> str:
    return f"preflight.{worker_id}"


def processes_subject(worker_id: str) -> str:
    return f"processes.{worker_id}"


def uploads_subject(worker_id: str) -> str:
    return f"uploads.{worker_id}"


def audit_subject(service: str, process: str) -> str:
    """One writer each: a process appends to a history of its own."""
    return f"audit.{service}.{process}"


def notices_subject(run_id: str) -> str:
    return f"notices.{run_id}"


def notice_requests_subject(run_id: str) -> str:
    return f"notice_requests.{run_id}"


def artifacts_subject(run_id: str) -> str:
    return f"artifacts.{run_id}"

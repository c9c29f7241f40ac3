"""Permissions on NATS: one user per service, each of which publishes only its own subjects.

The server enforces them, so that each stream has one kind of writer even when a service has a bug. They do
not cover what the server publishes for a user, answers and deliveries of consumers: answers stay within the
account of the user (runspine/eventlog/zones.py), and no service but the orchestrator may create a consumer.
"""

from __future__ import annotations

from dataclasses import dataclass

from runspine.eventlog.subjects import (
    ARTIFACTS,
    ATTEMPTS,
    AUDIT,
    BEATS,
    ECHO,
    FACT_STREAMS,
    JANITOR_PULSE,
    NOTICES,
    RUNS,
    TELEMETRY,
    WORK,
    announcements,
)

# Each writer publishes the introduction of its key, which counts by the operator's signature alone.
SIGNERS = "signers.*"
STREAMS = (RUNS, ATTEMPTS, TELEMETRY, ARTIFACTS, WORK, BEATS, AUDIT, NOTICES)


@dataclass(frozen=True, slots=True)
class NatsRights:
    """Subjects that a user may publish and subscribe to."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]


def inbox_of(user: str) -> str:
    """Prefix of a user's reply subjects. No other user may subscribe to it."""
    return f"_INBOX_{user}"


# Replies to launch checks. Workers may publish below it, so the orchestrator receives nothing else there.
PREFLIGHT_REPLIES = f"{inbox_of('orchestrator')}.preflight"
# The same for stacks and terminals of runs.
PROCESS_REPLIES = f"{inbox_of('orchestrator')}.processes"
# Signatures of uploads. The artifacts service may publish below it.
UPLOAD_REPLIES = f"{inbox_of('worker')}.uploads"


def read_subjects(*streams: str) -> tuple[str, ...]:
    """API subjects that a reader of these streams publishes to: gets from the leader and from any replica."""
    return tuple(
        f"$JS.API.{verb}.{stream}"
        for stream in streams
        for verb in ("STREAM.INFO", "STREAM.MSG.GET", "DIRECT.GET")
    )


def news_of(*streams: str) -> tuple[str, ...]:
    """Where a reader of these streams learns that something was stored."""
    return tuple(announcements(stream) for stream in streams)


def _orchestrator() -> NatsRights:
    return NatsRights(
        publish=(
            "runs.*",
            "keys.*",
            SIGNERS,
            "work.>",
            "caches.*",
            ECHO,
            "preflight.*",
            "processes.*",
            "notice_requests.*",
            *read_subjects(*STREAMS),
            # It creates the streams and the consumers of offers. No service may delete a stream with facts,
            # purge it or restore it.
            *(f"$JS.API.STREAM.{verb}.{stream}" for stream in STREAMS for verb in ("CREATE", "UPDATE")),
            f"$JS.API.STREAM.DELETE.{BEATS}",
            f"$JS.API.STREAM.MSG.DELETE.{WORK}",
            f"$JS.API.CONSUMER.DURABLE.CREATE.{WORK}.*",
            "$JS.API.INFO",
            *_own_audit("orchestrator"),
        ),
        subscribe=(*_own_inbox("orchestrator"), *news_of(*STREAMS)),
    )


def _worker() -> NatsRights:
    return NatsRights(
        publish=(
            "attempts.*",
            "workers.*",
            SIGNERS,
            "telemetry.>",
            "beats.*",
            "frames.>",
            "uploads.*",
            f"{PREFLIGHT_REPLIES}.*.*",
            f"{PROCESS_REPLIES}.*.*",
            *read_subjects(RUNS, ATTEMPTS),
            *(f"$JS.API.STREAM.INFO.{stream}" for stream in STREAMS if stream not in (RUNS, ATTEMPTS)),
            f"$JS.API.CONSUMER.INFO.{WORK}.>",
            f"$JS.API.CONSUMER.MSG.NEXT.{WORK}.>",
            f"$JS.ACK.{WORK}.>",
        ),
        subscribe=(
            *_own_inbox("worker"),
            *news_of(RUNS, ATTEMPTS),
            "control.>",
            "caches.*",
            "preflight.*",
            "processes.*",
        ),
    )


def _launcher() -> NatsRights:
    # It starts workers elsewhere, reads which runs wait, and writes why an engine ended a worker.
    return NatsRights(
        publish=("placements.*", SIGNERS, *read_subjects(RUNS, ATTEMPTS)),
        subscribe=(*_own_inbox("launcher"), *news_of(RUNS, ATTEMPTS)),
    )


def _notices() -> NatsRights:
    # What else it does, it asks of the orchestrator and of telemetry over gRPC.
    return NatsRights(
        publish=("notices.*", SIGNERS, *read_subjects(RUNS, ATTEMPTS, NOTICES)),
        subscribe=(*_own_inbox("notices"), *news_of(RUNS, ATTEMPTS, NOTICES)),
    )


def _telemetry() -> NatsRights:
    return NatsRights(
        publish=(
            *read_subjects(RUNS, ATTEMPTS, TELEMETRY),
            f"$JS.API.STREAM.PURGE.{TELEMETRY}",
            *_own_audit("telemetry"),
        ),
        subscribe=(*_own_inbox("telemetry"), *news_of(RUNS, ATTEMPTS, TELEMETRY)),
    )


def _artifacts() -> NatsRights:
    return NatsRights(
        publish=(
            "artifacts.*",
            SIGNERS,
            JANITOR_PULSE,
            f"{UPLOAD_REPLIES}.*.*",
            *read_subjects(RUNS, ATTEMPTS, ARTIFACTS),
            *_own_audit("artifacts"),
        ),
        subscribe=(*_own_inbox("artifacts"), *news_of(RUNS, ATTEMPTS, ARTIFACTS), JANITOR_PULSE, "uploads.*"),
    )


def _janitor() -> NatsRights:
    # The prunes of the artifacts service, in a process of their own.
    return NatsRights(
        publish=("artifacts.*", SIGNERS, JANITOR_PULSE, *read_subjects(RUNS, ATTEMPTS, ARTIFACTS)),
        subscribe=(*_own_inbox("janitor"), *news_of(RUNS, ATTEMPTS, ARTIFACTS), JANITOR_PULSE),
    )


def _dashboard() -> NatsRights:
    return NatsRights(
        publish=("control.>", *read_subjects(*FACT_STREAMS, BEATS), *_own_audit("dashboard")),
        subscribe=(*_own_inbox("dashboard"), *news_of(*FACT_STREAMS, BEATS), "frames.>"),
    )


def _own_audit(service: str) -> tuple[str, ...]:
    """Its part of the audit trail, which it can write and not read."""
    return (f"audit.{service}.*",)


def _own_inbox(user: str) -> tuple[str, ...]:
    return (f"{inbox_of(user)}.>",)


# `admin` is for operators, not for a service.
USERS: dict[str, NatsRights] = {
    "orchestrator": _orchestrator(),
    "worker": _worker(),
    "telemetry": _telemetry(),
    "artifacts": _artifacts(),
    "janitor": _janitor(),
    "dashboard": _dashboard(),
    "launcher": _launcher(),
    "notices": _notices(),
    "admin": NatsRights(publish=(">",), subscribe=(">",)),
}

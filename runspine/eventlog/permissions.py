"""Permissions on NATS: one user per service, each of which publishes only its own subjects.

The server enforces them, so that each stream has one kind of writer even when a service has a bug.
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
)

# Each writer publishes the introduction of its key, which counts by the operator's signature alone.
SIGNERS = "signers.*"
STREAMS = (RUNS, ATTEMPTS, TELEMETRY, ARTIFACTS, WORK, BEATS, AUDIT, NOTICES)


@dataclass(frozen=True, slots=True)
class NatsRights:
    """Subjects that a user may publish and subscribe to; `never_publish` takes precedence."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    never_publish: tuple[str, ...] = ()


def inbox_of(user: str) -> str:
    """Prefix of a user's reply subjects. No other user may subscribe to it."""
    return f"_INBOX_{user}"


# Replies to launch checks. Workers may publish below it, so the orchestrator receives nothing else there.
PREFLIGHT_REPLIES = f"{inbox_of('orchestrator')}.preflight"
# The same for stacks and terminals of runs.
PROCESS_REPLIES = f"{inbox_of('orchestrator')}.processes"


def read_subjects(*streams: str) -> tuple[str, ...]:
    """API subjects that a reader of these streams publishes to: gets from the leader and from any replica,
    and ephemeral consumers."""
    return tuple(
        subject
        for stream in streams
        for subject in (
            f"$JS.API.STREAM.INFO.{stream}",
            f"$JS.API.STREAM.MSG.GET.{stream}",
            f"$JS.API.DIRECT.GET.{stream}",
            f"$JS.API.DIRECT.GET.{stream}.>",
            f"$JS.API.CONSUMER.CREATE.{stream}.>",
            f"$JS.API.CONSUMER.MSG.NEXT.{stream}.>",
        )
    )


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
            "$JS.API.>",
            *_own_audit("orchestrator"),
        ),
        subscribe=_own_inbox("orchestrator"),
        # It creates the streams, but no service may delete or restore the log. Heartbeats are not of the log.
        never_publish=(
            *(f"$JS.API.STREAM.DELETE.{stream}" for stream in STREAMS if stream != BEATS),
            "$JS.API.STREAM.RESTORE.>",
            "$JS.API.ACCOUNT.>",
        ),
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
            f"{PREFLIGHT_REPLIES}.*.*",
            f"{PROCESS_REPLIES}.*.*",
            *read_subjects(RUNS, ATTEMPTS),
            *(f"$JS.API.STREAM.INFO.{stream}" for stream in STREAMS if stream not in (RUNS, ATTEMPTS)),
            f"$JS.API.CONSUMER.INFO.{WORK}.>",
            f"$JS.API.CONSUMER.MSG.NEXT.{WORK}.>",
            f"$JS.ACK.{WORK}.>",
        ),
        subscribe=(*_own_inbox("worker"), "control.>", "caches.*", "preflight.*", "processes.*"),
    )


def _launcher() -> NatsRights:
    # It starts workers elsewhere; on the log it only reads which runs wait.
    return NatsRights(publish=read_subjects(RUNS, ATTEMPTS), subscribe=_own_inbox("launcher"))


def _notices() -> NatsRights:
    # What else it does, it asks of the orchestrator and of telemetry over gRPC.
    return NatsRights(
        publish=("notices.*", SIGNERS, *read_subjects(RUNS, ATTEMPTS, NOTICES)),
        subscribe=_own_inbox("notices"),
    )


def _telemetry() -> NatsRights:
    return NatsRights(
        publish=(
            *read_subjects(RUNS, ATTEMPTS, TELEMETRY),
            f"$JS.API.STREAM.PURGE.{TELEMETRY}",
            *_own_audit("telemetry"),
        ),
        subscribe=_own_inbox("telemetry"),
    )


def _artifacts() -> NatsRights:
    return NatsRights(
        publish=(
            "artifacts.*",
            SIGNERS,
            JANITOR_PULSE,
            *read_subjects(RUNS, ATTEMPTS, ARTIFACTS),
            *_own_audit("artifacts"),
        ),
        subscribe=(*_own_inbox("artifacts"), JANITOR_PULSE),
    )


def _janitor() -> NatsRights:
    # The prunes of the artifacts service, in a process of their own.
    return NatsRights(
        publish=("artifacts.*", SIGNERS, JANITOR_PULSE, *read_subjects(RUNS, ATTEMPTS, ARTIFACTS)),
        subscribe=(*_own_inbox("janitor"), JANITOR_PULSE),
    )


def _dashboard() -> NatsRights:
    return NatsRights(
        publish=("control.>", *read_subjects(*FACT_STREAMS, BEATS), *_own_audit("dashboard")),
        subscribe=(*_own_inbox("dashboard"), "frames.>"),
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

"""Who may say and hear what on NATS: one user per service, each writing its own subjects alone.

The server enforces this, so that a stream has one kind of writer whatever a service does wrong.
"""

from __future__ import annotations

from dataclasses import dataclass

from runspine.log.subjects import ARTIFACTS, ATTEMPTS, BEATS, ECHO, FACT_STREAMS, RUNS, TELEMETRY, WORK

STREAMS = (RUNS, ATTEMPTS, TELEMETRY, ARTIFACTS, WORK, BEATS)


@dataclass(frozen=True, slots=True)
class Rights:
    """Subjects a user may publish and subscribe to; what is denied wins."""

    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    never_publish: tuple[str, ...] = ()


def inbox_of(user: str) -> str:
    """Where answers to a user arrive. Nobody else may listen there."""
    return f"_INBOX_{user}"


def reading(*streams: str) -> tuple[str, ...]:
    """What a reader of these streams asks the server: direct gets and throw-away consumers."""
    return tuple(
        subject
        for stream in streams
        for subject in (
            f"$JS.API.STREAM.INFO.{stream}",
            f"$JS.API.DIRECT.GET.{stream}",
            f"$JS.API.DIRECT.GET.{stream}.>",
            f"$JS.API.CONSUMER.CREATE.{stream}.>",
            f"$JS.API.CONSUMER.MSG.NEXT.{stream}.>",
        )
    )


def _orchestrator() -> Rights:
    return Rights(
        publish=("runs.*", "keys.*", "work.>", ECHO, "$JS.API.>"),
        subscribe=_own_inbox("orchestrator"),
        # It makes the streams, but a log that is the truth is not removed or rewritten by a service.
        never_publish=("$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.RESTORE.>", "$JS.API.ACCOUNT.>"),
    )


def _worker() -> Rights:
    return Rights(
        publish=(
            "attempts.*",
            "workers.*",
            "telemetry.>",
            "beats.*",
            "frames.>",
            *reading(RUNS, ATTEMPTS),
            *(f"$JS.API.STREAM.INFO.{stream}" for stream in STREAMS if stream not in (RUNS, ATTEMPTS)),
            f"$JS.API.CONSUMER.INFO.{WORK}.>",
            f"$JS.API.CONSUMER.MSG.NEXT.{WORK}.>",
            f"$JS.ACK.{WORK}.>",
        ),
        subscribe=(*_own_inbox("worker"), "control.>"),
    )


def _launcher() -> Rights:
    # It starts workers elsewhere; on the log it only looks who waits.
    return Rights(publish=reading(RUNS, ATTEMPTS), subscribe=_own_inbox("launcher"))


def _telemetry() -> Rights:
    return Rights(
        publish=(*reading(RUNS, ATTEMPTS, TELEMETRY), f"$JS.API.STREAM.PURGE.{TELEMETRY}"),
        subscribe=_own_inbox("telemetry"),
    )


def _artifacts() -> Rights:
    return Rights(
        publish=("artifacts.*", *reading(RUNS, ATTEMPTS, ARTIFACTS)),
        subscribe=_own_inbox("artifacts"),
    )


def _dashboard() -> Rights:
    return Rights(
        publish=("control.>", *reading(*FACT_STREAMS, BEATS)),
        subscribe=(*_own_inbox("dashboard"), "frames.>"),
    )


def _own_inbox(user: str) -> tuple[str, ...]:
    return (f"{inbox_of(user)}.>",)


# `admin` is for people, not for a service.
USERS: dict[str, Rights] = {
    "orchestrator": _orchestrator(),
    "worker": _worker(),
    "telemetry": _telemetry(),
    "artifacts": _artifacts(),
    "dashboard": _dashboard(),
    "launcher": _launcher(),
    "admin": Rights(publish=(">",), subscribe=(">",)),
}

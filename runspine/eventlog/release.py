"""Ends the quarantine of a subject, on the word of an operator."""

from __future__ import annotations

from contextlib import aclosing

from runspine.clock import now_micros
from runspine.errors import RefusedError
from runspine.eventlog.admission import Admission
from runspine.eventlog.port import EventLog, Version
from runspine.eventlog.subjects import stream_of
from runspine.wire.v1.facts_pb2 import Fact, SubjectReleased
from runspine.wire.v1.run_pb2 import Quarantine


async def release(log: EventLog, subject: str, *, by: str, reason: str) -> Quarantine:
    """Append SubjectReleased after the last accepted commit; the quarantine that it ends.

    Raises RefusedError when the subject is not quarantined, and CorruptError when another message arrived
    meanwhile.
    """
    admission, last = Admission(authors=log.authors), Version()
    async with aclosing(log.follow(stream_of(subject), subject=subject, live=False)) as messages:
        async for recorded in messages:
            if admission.admit(recorded).counts:
                last = recorded.version()
    quarantine = admission.quarantined.get(subject)
    if quarantine is None:
        raise RefusedError(f"{subject} is not quarantined")
    released = SubjectReleased(first=quarantine.first, last=quarantine.last, released_by=by, reason=reason)
    expected = Version(quarantine.last, last.number, last.digest)
    version = await log.append(subject, [Fact(at=now_micros(), subject_released=released)], expected=expected)
    quarantine.released = version.sequence
    return quarantine

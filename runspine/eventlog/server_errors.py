"""What each error code of JetStream means for the call that met it.

Complete for the calls that Runspine makes (append, read, consumer, stream), checked against nats-server
2.15. Features that Runspine does not use (mirrors, sources, batches, counters, schedules, priority groups)
have codes that none of its calls can meet.

An unknown code is classified by its status: 4xx is a request that the server did not accept and did not
store, so it is refused. For everything else, and for 408, 409 and 429, the outcome is unknown, and the
request is repeated under the same message id: a repeated append is stored once, a lost one would be gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Verdict(Enum):
    """What to do about an error of the server."""

    # Transient or undecided: the same request again, an append under the same message id, until an answer.
    RETRY = "retry"
    # Another writer was first: read and decide again.
    CONFLICT = "conflict"
    # This request will never be accepted, and nothing was stored.
    REFUSE = "refuse"
    # The server or the account is not set up for us: an operator must act.
    FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class ServerError:
    """One error code, the calls that can meet it, and what it means for them."""

    code: int
    verdict: Verdict
    calls: str
    meaning: str


WRONG_LAST_SEQUENCE = 10071
NO_MESSAGE = 10037
STREAM_NOT_FOUND = 10059
# Statuses of the class 4xx after which the same request may yet succeed.
_UNDECIDED = (408, 409, 429)

_RETRY = (
    (10002, "append stream", "the storage of the account is used up until something is removed"),
    (10004, "stream", "not every server has answered yet"),
    (10005, "stream", "too few servers can take a replica now"),
    (10007, "append read consumer stream", "this server does not know yet who serves the stream"),
    (10008, "append read consumer stream", "nobody leads the stream or the cluster now"),
    (10009, "append read consumer stream", "this server stopped leading"),
    (10012, "consumer", "the server could not make the consumer"),
    (10014, "consumer", "the consumer is gone or not made yet"),
    (10023, "append consumer stream", "a server is out of memory or disk"),
    (10026, "consumer", "too many consumers until unused ones are removed"),
    (10028, "append consumer stream", "the memory for streams is used up"),
    (10039, "read consumer stream", "JetStream starts, stops or lost its disk on this server"),
    (10041, "append consumer stream", "the replicas could not agree"),
    (10047, "append stream", "the disk for streams is used up"),
    (10048, "stream", "the cluster could not assign the stream"),
    (10049, "stream", "the server could not make the stream, as while an old directory is removed"),
    (10050, "stream", "the server could not delete the stream"),
    (10051, "stream", "the server failed on its own"),
    (10057, "stream", "the message could not be deleted"),
    (10059, "read consumer stream", "the stream is not made yet"),
    (10069, "stream", "the server could not apply the update"),
    (10075, "stream", "replicas could not be moved"),
    (10076, "read consumer stream", "JetStream starts, stops or lost its disk on this server"),
    (10077, "append", "the stream is full, or its disk failed"),
    (10096, "append stream", "the stream is being replaced"),
    (10104, "consumer", "the consumer could not be stored"),
    (10110, "stream", "the purge failed"),
    (10118, "read stream", "every server with a replica is down"),
    (10119, "consumer", "every server with the consumer is down"),
    (10124, "stream", "the stream is being moved"),
    (10158, "append", "a message with this id is being stored: its outcome is not decided yet"),
    (10163, "append", "the last sequence of the subject is not known yet"),
    (10164, "append", "another message on the subject is being stored: who was first is not decided yet"),
    (10167, "append", "the leader has too much to do"),
    (10180, "read consumer", "this replica has not stored what was asked for yet"),
    (10202, "stream", "a server joins or leaves"),
    (10226, "stream", "the stream is being changed"),
)
_CONFLICT = (
    (10058, "stream", "another process made the stream with another configuration"),
    (10071, "append", "another commit is the last of the subject or stream"),
    (10148, "consumer", "another process made the consumer"),
)
_REFUSE = (
    (10003, "read consumer stream", "the request makes no sense to the server"),
    (10013, "consumer", "the consumer exists with another configuration"),
    (10025, "read consumer stream", "the request is not JSON"),
    (10037, "read stream", "there is no such message"),
    (10038, "stream", "the request must be empty"),
    (10043, "read stream", "there is no message at this position"),
    (10052, "stream", "the configuration is not valid or cannot be changed in this way"),
    (10054, "append", "the message is larger than the stream accepts"),
    (10056, "stream", "the names of the stream in subject and request differ"),
    (10060, "append", "the message is meant for another stream"),
    (10061, "stream", "the number of replicas cannot be changed"),
    (10065, "stream", "another stream has these subjects"),
    (10070, "append", "another message id is the last"),
    (10078, "consumer", "the consumer has no configuration"),
    (10084, "consumer", "a queue of work needs acknowledgements"),
    (10093, "consumer", "the filter does not belong to the stream"),
    (10094, "consumer", "the policy of the consumer is not valid"),
    (10097, "append", "the headers are too large"),
    (10098, "consumer", "a queue of work needs acknowledgements"),
    (10099, "consumer", "another consumer serves the whole queue of work"),
    (10100, "consumer", "another consumer serves this part of the queue of work"),
    (10101, "consumer", "a consumer of a queue of work starts at its beginning"),
    (10102, "consumer", "the name of the consumer is too long"),
    (10105, "consumer", "the consumer is in use"),
    (10117, "stream", "too many subjects to list"),
    (10121, "consumer", "more unacknowledged messages than the server allows"),
    (10123, "stream", "a stream cannot be moved and scaled at once"),
    (10125, "consumer", "a larger batch than the server allows"),
    (10126, "consumer", "more replicas than the stream has"),
    (10127, "consumer", "the name of the consumer is not valid"),
    (10128, "stream", "the name of the stream is not valid"),
    (10131, "consumer", "the filters in subject and request differ"),
    (10132, "consumer", "the names of the consumer differ"),
    (10133, "stream", "the number of replicas is negative"),
    (10149, "consumer", "there is no such consumer to update"),
    (10153, "consumer", "a longer pause than the server allows"),
    (10165, "append", "the lifetime of the message is not valid"),
    (10166, "append", "the stream keeps no lifetimes of messages"),
    (10193, "append", "the expected sequence is missing"),
    (10225, "consumer", "the consumer belongs to an earlier stream of this name"),
    (10227, "append", "the message names a source"),
)
_FATAL = (
    (10010, "stream", "the server is not in a cluster"),
    (10027, "stream", "the account may not have so many streams"),
    (10035, "read consumer stream", "the account does not exist"),
    (10036, "consumer stream", "a cluster cannot do this"),
    (10053, "stream", "the limits of the account are below what the stream needs"),
    (10074, "stream", "replicas need a cluster of nats-servers"),
    (10109, "append stream", "the stream was sealed"),
    (10113, "stream", "the account wants a limit for each stream"),
    (10120, "append stream", "the account has no storage for this number of replicas"),
    (10122, "stream", "the account allows less storage than the stream needs"),
    (10185, "read consumer stream", "the nats-server is too old"),
    (10194, "read stream", "the nats-server is too old for the stream"),
    (10195, "consumer", "the nats-server is too old for the consumer"),
)

TABLE: dict[int, ServerError] = {
    code: ServerError(code, verdict, calls, meaning)
    for verdict, rows in (
        (Verdict.RETRY, _RETRY),
        (Verdict.CONFLICT, _CONFLICT),
        (Verdict.REFUSE, _REFUSE),
        (Verdict.FATAL, _FATAL),
    )
    for code, calls, meaning in rows
}


class ServerRefusedError(Exception):
    """JetStream replied with an error that the same request again does not resolve."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.code = code_of(error)
        self.verdict = verdict_of(error)
        self.description = str(error.get("description", "no reason given"))
        known = TABLE.get(self.code)
        meaning = f": {known.meaning}" if known else ""
        super().__init__(f"{self.description} ({self.code}){meaning}")


def code_of(error: Mapping[str, Any]) -> int:
    """The code in an error of the API; 0 when it has none."""
    code = error.get("err_code", 0)
    return code if isinstance(code, int) else 0


def verdict_of(error: Mapping[str, Any]) -> Verdict:
    """What to do about the error of an API answer."""
    known = TABLE.get(code_of(error))
    if known is not None:
        return known.verdict
    status = error.get("code", 0)
    refused = isinstance(status, int) and 400 <= status < 500 and status not in _UNDECIDED
    return Verdict.REFUSE if refused else Verdict.RETRY


def sequence_in(description: str) -> int:
    """The sequence that a "wrong last sequence" error names; 0 when it names none."""
    number = description.rpartition(":")[2].strip()
    return int(number) if number.isdecimal() else 0

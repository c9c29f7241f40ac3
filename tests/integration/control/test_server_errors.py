"""Every error code of JetStream that a call can meet, and what becomes of it. The test plays JetStream."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
import pytest_asyncio
from nats.aio.msg import Msg

from runspine.eventlog import ConflictError, UnknownOutcomeError, Version
from runspine.eventlog import server_errors as errors
from runspine.eventlog.api import ask
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.connection import NatsAccount, NatsConnection, NatsUnreachableError
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import Publisher, PublishRefusedError
from runspine.eventlog.server_errors import TABLE, ServerError, ServerRefusedError, Verdict, verdict_of
from runspine.wire.v1.facts_pb2 import Fact
from tests.kit.servers.nats import NatsServer

POSITION = 7
pytestmark = pytest.mark.asyncio(loop_scope="module")


class PlayedStream:
    """Answers appends and questions with what a test has prepared; the last answer is given for ever."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        self.ids: list[str] = []
        self.asked = 0
        self.appends: list[dict[str, Any]] = [{"stream": "RUNS", "seq": POSITION}]
        self.answers: list[dict[str, Any]] = [{}]

    async def append(self, log: JetStreamLog, commit_id: str = "mine") -> Version:
        return await log.append("runs.r1", [Fact(at=1)], expected=Version(), commit_id=commit_id)

    async def stored(self, message: Msg) -> None:
        self.ids.append((message.headers or {})["Nats-Msg-Id"])
        answer = self.appends.pop(0) if len(self.appends) > 1 else self.appends[0]
        await message.respond(json.dumps(answer).encode())

    async def answered(self, message: Msg) -> None:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        await message.respond(json.dumps(answer).encode())


def failure(code: int, status: int = 500, description: str = "played") -> dict[str, Any]:
    return {"error": {"code": status, "err_code": code, "description": description}}


def message_of(commit_id: str, sequence: int = POSITION) -> dict[str, Any]:
    """The leader's answer to a question for the last message of the subject."""
    data = seal(Version(), [Fact(at=2)], commit_id, "other")
    headers = f"NATS/1.0\r\nRunspine-Digest: {digest_of(data).hex()}\r\n\r\n".encode()
    return {
        "message": {
            "subject": "runs.r1",
            "seq": sequence,
            "hdrs": base64.b64encode(headers).decode(),
            "data": base64.b64encode(data).decode(),
            "time": "2026-01-01T00:00:00Z",
        }
    }


@pytest.fixture(scope="module")
def core_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NatsServer]:
    server = NatsServer(tmp_path_factory.mktemp("nats"), jetstream=False)
    server.start()
    yield server
    server.stop()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def link(core_server: NatsServer) -> AsyncIterator[NatsConnection]:
    async with NatsConnection(NatsAccount(core_server.url), "test") as made:
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stream(core_server: NatsServer) -> AsyncIterator[PlayedStream]:
    async with NatsConnection(NatsAccount(core_server.url), "played") as server:
        made = PlayedStream()
        await server.client.subscribe("runs.*", cb=made.stored)
        await server.client.subscribe("$JS.API.>", cb=made.answered)
        await server.client.flush()
        yield made


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def log(link: NatsConnection) -> AsyncIterator[JetStreamLog]:
    async with Publisher(link) as publisher:
        yield JetStreamLog(link, publisher, timeout=1)


@pytest.fixture
def played(stream: PlayedStream) -> PlayedStream:
    stream.reset()
    return stream


def rows(*verdicts: Verdict, append: bool) -> list[Any]:
    found = [row for row in TABLE.values() if row.verdict in verdicts and ("append" in row.calls) is append]
    return [pytest.param(row, id=str(row.code)) for row in found]


@pytest.mark.parametrize("row", rows(Verdict.RETRY, append=True))
async def test_an_append_is_repeated_under_its_id_until_it_is_decided(
    played: PlayedStream, log: JetStreamLog, row: ServerError
) -> None:
    played.appends[:0] = [failure(row.code), failure(row.code)]
    version = await played.append(log)
    assert (version.sequence, version.number) == (POSITION, 1)
    assert played.ids == ["mine"] * 3


@pytest.mark.parametrize("row", rows(Verdict.REFUSE, Verdict.FATAL, append=True))
async def test_an_append_that_is_not_accepted_is_not_repeated(
    played: PlayedStream, log: JetStreamLog, row: ServerError
) -> None:
    played.appends = [failure(row.code, 400)]
    with pytest.raises(PublishRefusedError, match=row.meaning) as raised:
        await played.append(log)
    assert (raised.value.code, raised.value.verdict) == (row.code, row.verdict)
    assert played.ids == ["mine"]


@pytest.mark.parametrize("row", rows(Verdict.CONFLICT, append=True))
async def test_an_append_behind_another_commit_is_a_conflict(
    played: PlayedStream, log: JetStreamLog, row: ServerError
) -> None:
    played.appends = [failure(row.code, 400, f"wrong last sequence: {POSITION}")]
    played.answers = [message_of("theirs")]
    with pytest.raises(ConflictError):
        await played.append(log)


async def test_a_refused_append_that_was_stored_before_is_a_success(
    played: PlayedStream, log: JetStreamLog
) -> None:
    played.appends = [failure(10071, 400, f"wrong last sequence: {POSITION}")]
    played.answers = [message_of("mine")]
    assert (await played.append(log)).sequence == POSITION


async def test_a_read_without_the_commit_in_the_way_decides_nothing(
    played: PlayedStream, log: JetStreamLog
) -> None:
    nothing = failure(errors.NO_MESSAGE, 404)
    played.appends = [failure(10071, 400, f"wrong last sequence: {POSITION}")]
    played.answers = [nothing, nothing, message_of("mine")]
    assert (await played.append(log)).sequence == POSITION
    # Twice in vain; then the last message, and the history up to it.
    assert played.asked == 4
    played.answers = [nothing]
    with pytest.raises(UnknownOutcomeError, match="position 7 cannot be read"):
        await played.append(log)


async def test_a_leader_behind_what_the_writer_has_read_decides_nothing(
    played: PlayedStream, log: JetStreamLog
) -> None:
    played.appends[:0] = [failure(10071, 400, f"wrong last sequence: {POSITION - 4}")]
    expected = Version(POSITION - 1, 1, b"before")
    version = await log.append("runs.r1", [Fact(at=1)], expected=expected, commit_id="mine")
    assert (version.sequence, version.number) == (POSITION, 2)
    assert played.ids == ["mine", "mine"]


@pytest.mark.parametrize("row", rows(Verdict.RETRY, append=False))
async def test_a_question_is_repeated_while_the_error_is_transient(
    played: PlayedStream, link: NatsConnection, row: ServerError
) -> None:
    played.answers = [failure(row.code), {"answer": 1}]
    assert await ask(link, "STREAM.INFO.RUNS") == {"answer": 1}
    assert played.asked == 2


@pytest.mark.parametrize("row", rows(Verdict.CONFLICT, Verdict.REFUSE, Verdict.FATAL, append=False))
async def test_a_question_that_is_not_accepted_is_not_repeated(
    played: PlayedStream, link: NatsConnection, row: ServerError
) -> None:
    played.answers = [failure(row.code, 400)]
    with pytest.raises(ServerRefusedError, match=row.meaning) as raised:
        await ask(link, "STREAM.INFO.RUNS")
    assert (raised.value.code, raised.value.verdict) == (row.code, row.verdict)
    assert played.asked == 1


async def test_an_error_that_does_not_pass_is_reported_in_time(
    played: PlayedStream, link: NatsConnection
) -> None:
    played.answers = [failure(10008, 503, "JetStream system temporarily unavailable")]
    with pytest.raises(NatsUnreachableError, match="temporarily unavailable"):
        await ask(link, "STREAM.INFO.RUNS", timeout=0.5)


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        (400, Verdict.REFUSE),
        (404, Verdict.REFUSE),
        (412, Verdict.REFUSE),
        (408, Verdict.RETRY),
        (409, Verdict.RETRY),
        (429, Verdict.RETRY),
        (500, Verdict.RETRY),
        (503, Verdict.RETRY),
        (0, Verdict.RETRY),
        ("?", Verdict.RETRY),
    ],
)
async def test_an_unknown_code_is_classified_by_its_status(status: object, verdict: Verdict) -> None:
    assert verdict_of({"err_code": 99999, "code": status}) is verdict
    assert verdict_of({"code": status}) is verdict


async def test_no_code_stands_in_the_table_twice() -> None:
    listed = [*errors._RETRY, *errors._CONFLICT, *errors._REFUSE, *errors._FATAL]
    assert len(listed) == len(TABLE)
    assert all(set(row.calls.split()) <= {"append", "read", "consumer", "stream"} for row in TABLE.values())

"""Asks workers for the launch of a spec, over core NATS: nothing of it is stored."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import OrderedDict
from collections.abc import AsyncIterator
from dataclasses import dataclass

import structlog
from google.protobuf.message import DecodeError

from runspine.clock import now_micros
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.core_nats import CoreMessage, messages_of, try_publish
from runspine.eventlog.permissions import PREFLIGHT_REPLIES
from runspine.eventlog.subjects import preflight_subject
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.launch_verdict import (
    Answered,
    LaunchAnswer,
    LaunchVerdict,
    answer_of,
    launch_digest,
    launch_request,
    result_of,
    unanswered,
    verdict,
)
from runspine.services.orchestrator.edges.metrics import LAUNCH_CHECKS
from runspine.wire.v1.preflight_pb2 import PreflightReply
from runspine.wire.v1.spec_pb2 import RunSpec

log = structlog.get_logger()

WAIT_SECONDS = 2.0
# A worker that did not answer in time delays the checks of the next seconds by this much only.
QUICK_SECONDS = 0.1
SILENT_SECONDS = 10.0
# Two workers usually agree; the others are asked only when these refuse.
FIRST_ASKED = 2
MAX_ASKED = 16
# Questions under way, of all calls together.
MAX_QUESTIONS = 256
# A late answer is still kept for the next check.
GIVE_UP_SECONDS = 30.0
KEPT_SECONDS = {Answered.READY: 5.0, Answered.PROBLEMS: 2.0}
MAX_KEPT = 512
Key = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class LaunchQuestion:
    """A request that a worker has not answered yet."""

    key: Key
    answer: asyncio.Future[LaunchAnswer]

    @property
    def worker_id(self) -> str:
        return self.key[0]


class LaunchChecks:
    """Launch checks of this process. Equal questions to a worker are asked once; answers are kept briefly."""

    def __init__(self, link: NatsConnection, board: Board) -> None:
        self._link = link
        self._board = board
        self._inbox = f"{PREFLIGHT_REPLIES}.{link.token}"
        self._numbers = itertools.count(1)
        self._questions: dict[int, LaunchQuestion] = {}
        self._asked: dict[Key, LaunchQuestion] = {}
        self._kept: OrderedDict[Key, tuple[float, LaunchAnswer]] = OrderedDict()
        self._silent: dict[str, float] = {}

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Receive replies while the context is open."""
        async with messages_of(self._link, f"{self._inbox}.*", self._receive):
            yield

    async def check(self, spec: RunSpec) -> LaunchVerdict:
        """What is known about the launch of a spec with all its defaults, within WAIT_SECONDS."""
        fleet = self._board.fleet
        fitting = fleet.pool(spec.pool).that_could_launch(spec, MAX_ASKED)
        if not fitting:
            found = unanswered(spec, fleet, now_micros())
        else:
            found = verdict(await self._ask_all(spec, fitting), now_micros())
        LAUNCH_CHECKS.labels(result_of(found)).inc()
        return found

    async def _ask_all(self, spec: RunSpec, fitting: list[str]) -> list[LaunchAnswer]:
        request = launch_request(spec, self._board.runs)
        digest, payload = launch_digest(request), request.SerializeToString()
        until = time.monotonic() + WAIT_SECONDS
        answers: list[LaunchAnswer] = []
        for names in (fitting[:FIRST_ASKED], fitting[FIRST_ASKED:]):
            answers += await self._answers([(name, digest) for name in names], payload, until)
            if any(answer.kind is Answered.READY for answer in answers):
                break
        return answers

    async def _answers(self, keys: list[Key], payload: bytes, until: float) -> list[LaunchAnswer]:
        """The answers of these workers, or of all until one of them is ready."""
        waits = {key: await self._ask(key, payload) for key in keys}
        if all(self._is_silent(worker_id) for worker_id, _ in keys):
            until = min(until, time.monotonic() + QUICK_SECONDS)
        while True:
            done = [each for each in waits.values() if each.done()]
            left = until - time.monotonic()
            if len(done) == len(waits) or left <= 0 or _has_ready(done):
                break
            open_waits = [each for each in waits.values() if not each.done()]
            await asyncio.wait(open_waits, timeout=left, return_when=asyncio.FIRST_COMPLETED)
        if not _has_ready(done):
            for worker_id, _ in (key for key, each in waits.items() if not each.done()):
                self._silent[worker_id] = time.monotonic() + SILENT_SECONDS
        return [
            each.result() if each.done() else LaunchAnswer(worker_id, Answered.SILENT)
            for (worker_id, _), each in waits.items()
        ]

    def _is_silent(self, worker_id: str) -> bool:
        return self._silent.get(worker_id, 0.0) > time.monotonic()

    async def _ask(self, key: Key, payload: bytes) -> asyncio.Future[LaunchAnswer]:
        loop = asyncio.get_running_loop()
        until, kept = self._kept.get(key, (0.0, None))
        if kept is not None and until > time.monotonic():
            return _done(kept)
        if key in self._asked:
            return self._asked[key].answer
        if len(self._questions) >= MAX_QUESTIONS:
            busy = PreflightReply(unknown="too many launch checks are under way")
            return _done(LaunchAnswer(key[0], Answered.UNKNOWN, busy))
        number, question = next(self._numbers), LaunchQuestion(key, loop.create_future())
        self._questions[number] = self._asked[key] = question
        loop.call_later(GIVE_UP_SECONDS, self._forget, number)
        if not await try_publish(self._link, preflight_subject(key[0]), payload, f"{self._inbox}.{number}"):
            self._settle(number, LaunchAnswer(key[0], Answered.ABSENT))
        return question.answer

    def _receive(self, message: CoreMessage) -> None:
        """Take a reply. Any worker may publish one: it counts only for the worker that was asked."""
        last = message.subject.rpartition(".")[2]
        number = int(last) if last.isascii() and last.isdigit() and len(last) < 20 else 0
        question = self._questions.get(number)
        if question is None:
            return
        if message.nobody:
            self._settle(number, LaunchAnswer(question.worker_id, Answered.ABSENT))
            return
        try:
            reply = PreflightReply.FromString(message.data)
        except DecodeError as error:
            log.warning("launch_check.unreadable", worker_id=question.worker_id, error=str(error))
            return
        if reply.worker_id == question.worker_id:
            self._silent.pop(question.worker_id, None)
            self._settle(number, answer_of(question.worker_id, reply))

    def _settle(self, number: int, answer: LaunchAnswer) -> None:
        question = self._forget(number)
        if question is None:
            return
        if not question.answer.done():
            question.answer.set_result(answer)
        if seconds := KEPT_SECONDS.get(answer.kind):
            self._kept[question.key] = (time.monotonic() + seconds, answer)
            self._kept.move_to_end(question.key)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)

    def _forget(self, number: int) -> LaunchQuestion | None:
        question = self._questions.pop(number, None)
        if question is not None:
            self._asked.pop(question.key, None)
        return question


def _done(answer: LaunchAnswer) -> asyncio.Future[LaunchAnswer]:
    future: asyncio.Future[LaunchAnswer] = asyncio.get_running_loop().create_future()
    future.set_result(answer)
    return future


def _has_ready(done: list[asyncio.Future[LaunchAnswer]]) -> bool:
    return any(each.result().kind is Answered.READY for each in done)

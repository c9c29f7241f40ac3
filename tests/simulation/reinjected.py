"""Faults that Runspine once had, switched back on: the simulator must find each of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from runspine.eventlog import ConflictError, Recorded, Version, publisher, reads, server_errors, streams
from runspine.eventlog.chain import check_history
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import PublishRefusedError
from runspine.eventlog.reads import READ_BATCH, SubjectReader
from runspine.eventlog.server_errors import Verdict
from runspine.eventlog.subjects import stream_of


@contextmanager
def transient_refused() -> Iterator[None]:
    """10158 "duplicate message id is in process" was taken for a refusal: processes crashed at R=3."""
    row = replace(server_errors.TABLE[10158], verdict=Verdict.REFUSE)
    with patch.dict(server_errors.TABLE, {10158: row}):
        yield


@contextmanager
def reads_that_lag() -> Iterator[None]:
    """Decisions rested on direct gets, which a follower that lags may answer: one key, two runs."""

    async def history(self: SubjectReader, subject: str) -> list[Recorded]:
        stream = stream_of(subject)
        body = json.dumps({"batch": READ_BATCH, "seq": 1, "next_by_subj": subject}).encode()
        answers = self._link.replies(f"$JS.API.DIRECT.GET.{stream}", body)
        found = [reads._from_direct(stream, headers, data) async for headers, data in answers]
        check_history(found)
        return found

    async def own_or_conflict(
        self: JetStreamLog, subject: str, _: Version, commit_id: str, error: PublishRefusedError
    ) -> Version:
        found, version = await self.read(subject)
        for recorded in reversed(found):
            if recorded.commit.id == commit_id:
                return recorded.version()
        raise ConflictError(f"{subject} is at commit {version.number}") from error

    with (
        patch.object(SubjectReader, "history", history),
        patch.object(JetStreamLog, "_own_or_conflict", own_or_conflict),
    ):
        yield


@contextmanager
def persist_mode_kept() -> Iterator[None]:
    """BEATS was updated in place from one replica to three, which the server refuses at every start."""
    before = streams._update

    async def update(link: Any, current: dict[str, Any], config: dict[str, Any]) -> Any:
        known = {
            **current,
            "config": {**current["config"], "persist_mode": config.get("persist_mode", "default")},
        }
        return await before(link, known, config)

    with patch.object(streams, "_update", update):
        yield


@contextmanager
def conflict_guessed() -> Iterator[None]:
    """A refused append was a conflict at once, also when its first try had been stored and the reply lost."""

    async def own_or_conflict(self: JetStreamLog, subject: str, *_: object) -> Version:
        raise ConflictError(subject)

    with patch.object(JetStreamLog, "_own_or_conflict", own_or_conflict):
        yield


@contextmanager
def answer_behind_believed() -> Iterator[None]:
    """A refusal by a deposed leader, which lacks what the writer has read, was taken for a conflict."""
    with patch.object(publisher, "_is_behind", lambda *_: False):
        yield


Injection = Callable[[], AbstractContextManager[None]]
# By name: the patch, and the kind of schedule that finds it.
INJECTIONS: Mapping[str, tuple[Injection, str]] = {
    "transient-refused": (transient_refused, "log"),
    "reads-that-lag": (reads_that_lag, "log"),
    "persist-mode-kept": (persist_mode_kept, "log"),
    "conflict-guessed": (conflict_guessed, "log"),
    "answer-behind": (answer_behind_believed, "log"),
}

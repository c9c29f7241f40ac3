"""Turns of language models: kept in the log under a source of their own, without secrets."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from runspine.play.llm_settings import KEY
from runspine.services.worker.process.environment import known_secrets
from runspine.services.worker.protocol.events import Event, LogLine, TurnEvent
from runspine.services.worker.protocol.parsers import MAX_VALUE_BYTES
from runspine.services.worker.protocol.reader import ProtocolReader
from runspine.services.worker.protocol.redact import Redactor
from runspine.services.worker.runners.play import offered_actors
from runspine.wire.v1.spec_pb2 import RunSpec

TURN = {
    "type": "turn",
    "actor": "llm",
    "prompt": [{"role": "user", "content": "At 0. Your action?"}],
    "answer": "2, as ☃ sk-secret knows",
    "action": 2,
    "episode_id": "0-0",
    "step": 7,
    "seconds": 0.25,
    "t": 1.5,
}


def read(emitted: dict[str, Any]) -> Event:
    redact = Redactor(known_secrets(RunSpec(), {KEY: "sk-secret"}))
    return ProtocolReader(redact=redact).read(json.dumps(emitted).encode(), 9)


def test_a_turn_is_kept_whole_but_for_the_key() -> None:
    event = read(TURN)
    assert isinstance(event, TurnEvent)
    kept = json.loads(event.text)
    assert kept.pop("answer") == "2, as ☃ [secret RUNSPINE_LLM_KEY] knows"
    assert kept == {name: value for name, value in TURN.items() if name not in ("type", "t", "answer")}
    assert event.at == 1_500_000
    failed = read({**TURN, "action": None, "problem": "names no action"})
    assert isinstance(failed, TurnEvent)
    assert "action" not in json.loads(failed.text)


@pytest.mark.parametrize(
    "wrong",
    [
        {"answer": 2},
        {"prompt": "text"},
        {"prompt": ["text"]},
        {"prompt": [{"role": "user"}]},
        {"step": -1},
        {"seconds": "x"},
        {"answer": "x" * MAX_VALUE_BYTES},
    ],
)
def test_a_turn_that_is_none_stays_a_log_line(wrong: dict[str, Any]) -> None:
    assert isinstance(read({**TURN, **wrong}), LogLine)


def test_a_worker_offers_a_language_model_where_one_is_set() -> None:
    assert "llm" in offered_actors(sys.executable, {"RUNSPINE_LLM_URL": "http://127.0.0.1:1/v1"})
    assert "llm" not in offered_actors(sys.executable, {})

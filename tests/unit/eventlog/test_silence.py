"""When a connection leaves a server of a cluster that answers pings and nothing else."""

from __future__ import annotations

from runspine.eventlog.silence import PAUSE_SECONDS, SILENT_SECONDS, Silence


def test_a_server_is_left_when_a_stream_is_silent_for_long() -> None:
    silence = Silence()
    silence.unanswered("runs.a", 100.0)
    silence.unanswered("runs.b", 101.5)
    assert not silence.is_long(100.0 + SILENT_SECONDS - 0.1)
    assert silence.is_long(100.0 + SILENT_SECONDS)


def test_an_answer_ends_the_silence_of_its_stream_alone() -> None:
    silence = Silence()
    silence.unanswered("$JS.API.STREAM.MSG.GET.RUNS", 100.0)
    silence.unanswered("$JS.API.STREAM.MSG.GET.ATTEMPTS", 100.0)
    silence.answered("$JS.API.STREAM.INFO.RUNS")
    assert silence.is_long(103.0)
    silence.answered("$JS.API.STREAM.INFO.ATTEMPTS")
    assert not silence.is_long(103.0)


def test_servers_are_not_tried_in_turns_while_a_stream_has_no_leader() -> None:
    silence = Silence()
    silence.unanswered("runs.a", 100.0)
    silence.left(103.0)
    silence.unanswered("runs.a", 103.0)
    assert not silence.is_long(103.0 + PAUSE_SECONDS - 0.1)
    assert silence.is_long(103.0 + PAUSE_SECONDS)


def test_requests_to_services_do_not_count() -> None:
    silence = Silence()
    silence.unanswered("_INBOX_orchestrator.preflight.a.b", 100.0)
    silence.unanswered("$JS.API.CONSUMER.CREATE.ATTEMPTS.01ABC.attempts.x", 100.0)
    silence.unanswered("$JS.ACK.WORK.pool.1.1.1.1.0", 100.0)
    assert not silence.is_long(200.0)

from __future__ import annotations

import signal

import pytest

from runspine.services.worker.facts.outcome import exit_reason, hand_back, is_open, is_taken, stop_for
from runspine.services.worker.protocol.failure_line import FailureLine
from runspine.wire.v1.facts_pb2 import HANDED_BACK, STOPPED, AttemptExited, AttemptStarted, Fact
from runspine.wire.v1.run_pb2 import (
    CANCELLED,
    CANCELLING,
    COMPLETED,
    FAILED,
    QUEUED,
    RUNNING,
    STALE,
    Phase,
    Run,
)
from runspine.wire.v1.spec_pb2 import Limits, RunSpec

RAISED = 'Traceback (most recent call last):\n  File "x.py", line 1\n    raise ValueError("boom: 1")\n'
JAX = """ValueError: boom: 1
--------------------
For simplicity, JAX has removed its internal frames from the traceback of the following exception. Set \
JAX_TRACEBACK_FILTERING=off to include these.
"""
# As torchrun of torch 2.13 prints it.
TORCHRUN = """W1119 22:52:31.164000 5301 api.py:1028] Sending process 5469 closing signal SIGTERM
Traceback (most recent call last):
  File "launcher/api.py", line 383, in launch_agent
    raise ChildFailedError(
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\x20
============================================================
x.py FAILED
------------------------------------------------------------
Failures:
[1]:
  rank      : 1 (local_rank: 1)
  exitcode  : -15 (pid: 5469)  (SIGTERM)
  traceback : Signal 15 (SIGTERM) received by PID 5469
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  exitcode  : 3 (pid: 5468)\x20
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def start(attempt: int, worker: str = "w1") -> Fact:
    return Fact(attempt_started=AttemptStarted(attempt=attempt, worker_id=worker))


def end(attempt: int, worker: str = "w1") -> Fact:
    return Fact(attempt_exited=AttemptExited(attempt=attempt, worker_id=worker))


@pytest.mark.parametrize("phase", [QUEUED, RUNNING, STALE])
def test_a_run_that_goes_on_is_left_alone(phase: Phase) -> None:
    assert stop_for(Run(phase=phase, attempt=1), 1) is None


@pytest.mark.parametrize("phase", [CANCELLING, CANCELLED, COMPLETED, FAILED])
def test_a_run_that_ends_stops_its_trainer(phase: Phase) -> None:
    stop = stop_for(Run(phase=phase, attempt=1), 1)
    assert stop is not None
    assert (stop.outcome, stop.fenced) == (STOPPED, False)


@pytest.mark.parametrize("phase", list(Phase.values()))
def test_a_later_attempt_fences_whatever_the_phase(phase: Phase) -> None:
    stop = stop_for(Run(phase=phase, attempt=2), 1)
    assert stop is not None
    assert stop.fenced


def test_the_grace_is_that_of_the_spec_or_three_seconds_and_short_in_a_drain() -> None:
    cancelling = Run(phase=CANCELLING, attempt=1)
    assert getattr(stop_for(cancelling, 1), "grace", None) == 3
    cancelling.spec.limits.grace_seconds = 0
    assert getattr(stop_for(cancelling, 1), "grace", None) == 0
    patient = hand_back(RunSpec(limits=Limits(grace_seconds=600)))
    assert (patient.outcome, patient.grace) == (HANDED_BACK, 5)


def test_an_attempt_is_taken_once_it_or_a_later_one_has_begun() -> None:
    assert not is_taken([], 1)
    assert not is_taken([start(1), end(1)], 2)
    assert is_taken([start(1)], 1)
    assert is_taken([start(2)], 1)


def test_only_the_holder_of_the_newest_attempt_may_end_it_and_once() -> None:
    assert is_open([start(1)], 1, "w1")
    assert not is_open([], 1, "w1")
    assert not is_open([start(1)], 1, "w2")
    assert not is_open([start(1), end(1)], 1, "w1")
    assert not is_open([start(1), start(2, "w2")], 1, "w1")


@pytest.mark.parametrize(
    ("code", "number", "last", "reason"),
    [
        (0, 0, "a warning", "exit code 0"),
        (3, 0, "ValueError: bad lr", "exit code 3: ValueError: bad lr"),
        (3, 0, "", "exit code 3, with nothing on stderr: see its log"),
        (
            1,
            0,
            "ModuleNotFoundError: No module named 'ale_py'",
            "exit code 1: ModuleNotFoundError: No module named 'ale_py'. Install it in this runner's Python",
        ),
        (
            0,
            signal.SIGSEGV,
            "x",
            "killed by SIGSEGV: a crash in native code. "
            "Its log may show more with PYTHONFAULTHANDLER=1 under variables",
        ),
        (0, signal.SIGKILL, "x", "killed by SIGKILL: out of memory, or by hand"),
        (0, 63, "x", "killed by signal 63"),
    ],
)
def test_an_end_has_a_reason_for_people(code: int, number: int, last: str, reason: str) -> None:
    assert exit_reason(code, number, last) == reason


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", ""),
        (RAISED + "ValueError: boom: 1\n\n", "ValueError: boom: 1"),
        (RAISED + JAX, "ValueError: boom: 1"),
        (RAISED + "ValueError: boom: 1\n" + TORCHRUN, "ValueError: boom: 1"),
        (RAISED + "[rank0]: my.ConfigError: boom\n" + TORCHRUN, "my.ConfigError: boom"),
        (TORCHRUN, "torchrun: a process ended with exit code 3"),
        ("KeyError: handled\nout of steps\n=====\n", "out of steps"),
    ],
    ids=["nothing", "plain", "jax", "torchrun", "rank", "torchrun alone", "no exception"],
)
def test_the_reason_is_the_line_that_states_it(text: str, reason: str) -> None:
    failure = FailureLine()
    for line in text.split("\n"):
        failure.add(line)
    assert failure.text == reason

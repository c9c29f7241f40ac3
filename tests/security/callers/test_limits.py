"""Limits per caller against a real guarded."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import pytest

from runspine.wire.v1 import trainer_pb2 as trainer
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.callers import GuardedServices, bearer, code_of
from tests.kit.waiting import until

pytestmark = pytest.mark.slow
HUGE = trainer.SubmitRequest(spec=RunSpec(runner="script", command=["x" * (30 << 20)]))


def peak_mib(pid: int) -> float:
    """The most memory that a process ever had."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found
    return int(found[1]) / 1024


def test_messages_of_strangers_are_not_read_into_memory(guarded: GuardedServices) -> None:
    assert guarded.orchestrator.process
    pid = guarded.orchestrator.process.pid
    code_of(guarded.trainer.Submit, trainer.SubmitRequest(), ())
    before = peak_mib(pid)
    with ThreadPoolExecutor(8) as pool:
        codes = set(pool.map(lambda _: code_of(guarded.trainer.Submit, HUGE, ()), range(16)))
    assert codes == {grpc.StatusCode.UNAUTHENTICATED}
    assert peak_mib(pid) - before < 30, "less than one of 16 messages"


def test_a_request_that_is_too_large_and_a_pool_that_nobody_declared_are_refused(
    guarded: GuardedServices,
) -> None:
    guarded.tokens.add("jana", "janas-token", "run")
    until(lambda: guarded.allowed("janas-token"), 30)
    assert code_of(guarded.trainer.Submit, HUGE, bearer("janas-token")) == grpc.StatusCode.RESOURCE_EXHAUSTED
    spec = RunSpec(runner="script", command=["true"], env="Toy-v0", algo="none", pool="invented")
    request = trainer.SubmitRequest(spec=spec)
    with pytest.raises(grpc.RpcError) as refused:
        guarded.trainer.Submit(request, metadata=bearer("janas-token"))
    assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "RUNSPINE_POOLS" in (refused.value.details() or "")
    until(lambda: guarded.shell.json("audit", "--by", "jana", "--method", "Submit"), 60)

"""A worker's part of a launch check: fields of obstacles, spaces that fit, replies within limits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runspine.runners import NotReadyError
from runspine.services.worker.claim.launch_check import field_of, unlike
from runspine.services.worker.claim.preflight import MAX_COMMAND_BYTES, MAX_PROBLEMS, MAX_TEXT, bounded
from runspine.services.worker.runners import probes
from runspine.services.worker.runners.env_check import Space, unknown_env
from runspine.services.worker.runners.probes import reused_reports, run_probe
from runspine.wire.v1.preflight_pb2 import PreflightProblem, PreflightReply

BOX4 = Space("Box", "Box(-inf, inf, (4,), float32)", False)
BOX22 = Space("Box", "Box(0, 255, (2, 2), uint8)", True)
BOX6 = Space("Box", "Box(-1.0, 1.0, (6,), float32)", True)
TWO, FOUR = Space("Discrete", "Discrete(2)", True), Space("Discrete", "Discrete(4)", True)


@pytest.mark.parametrize(
    ("error", "field"),
    [
        (NotReadyError("dqn needs discrete actions", "algo"), "algo"),
        (NotReadyError("params.plans and params.plan_text are both given: remove one"), "params.plans"),
        (NotReadyError("env 'X' is not one that Gymnasium knows here"), "env"),
        (NotReadyError("env_kwargs do not fit"), "env_kwargs"),
        (NotReadyError("secret A is not set in the worker's environment"), "secrets"),
        (NotReadyError("warm start: run R has no checkpoint"), "warm_start"),
        (NotReadyError("evaluation.stochastic: remove it"), "evaluation.stochastic"),
        (NotReadyError("environment is broken"), "runner"),
        (OSError("disk full"), "runner"),
    ],
)
def test_an_obstacle_names_the_field_to_change(error: Exception, field: str) -> None:
    assert field_of(error) == field


def test_a_policy_fits_spaces_of_its_size_and_kind() -> None:
    assert unlike(BOX4, BOX6)
    assert unlike(TWO, FOUR)
    assert unlike(FOUR, BOX4)
    assert not unlike(BOX4, BOX22)
    assert not unlike(TWO, TWO)
    # What has no size that can be read is left to the evaluator.
    assert not unlike(BOX4, Space("Dict", "Dict(...)", True))


def test_a_reply_stays_within_its_limits() -> None:
    huge = PreflightReply(
        worker_id="w1",
        command=["python", "x" * MAX_COMMAND_BYTES, "y"],
        directory="d" * 9999,
        notices=["n" * 9999] * 99,
        problems=[PreflightProblem(field="f" * 9999, message="m" * 9999)] * 99,
        unknown="u" * 9999,
    )
    small = bounded(huge)
    assert list(small.command) == ["python", "…"]
    assert {len(small.directory), len(small.unknown), len(small.notices[0])} == {MAX_TEXT}
    assert (len(small.problems), len(small.notices)) == (MAX_PROBLEMS, MAX_PROBLEMS)
    plain = PreflightReply(worker_id="w1", command=["python", "train.py"], directory="/d")
    assert bounded(plain) == plain


def test_a_report_is_reused_by_checks_and_neither_by_launches_nor_when_it_names_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(probes, "_reports", {})
    counting = "import os, sys; open(sys.argv[1], 'a').write('x'); print(sys.argv[2])"
    runs = tmp_path / "runs"

    def probe(report: str) -> None:
        run_probe([sys.executable, "-S", "-c", counting, str(runs), report], {})

    good, bad = '{"actions": {}, "missing": []}', '{"missing": ["torch"]}'
    with reused_reports():
        probe(good)
        probe(good)
    assert runs.read_text() == "x"
    probe(good)
    assert runs.read_text() == "xx"
    with reused_reports():
        probe(bad)
        probe(bad)
    assert runs.read_text() == "xxxx"


def test_the_reason_of_an_unknown_atari_env_names_the_id_that_works() -> None:
    found = {"known": ["CartPole-v1"], "unknown": "Namespace ALE not found"}
    assert "write ale_py:ALE/Breakout-v5" in unknown_env("ALE/Breakout-v5", found)
    assert unknown_env("ale_py:ALE/Nope-v5", found).endswith("Namespace ALE not found")

"""What squeue lists of a job, and why Slurm ended it. The lines are those of Slurm 22.05."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from runspine.domain.slurm import parse_jobs, seconds_of, why_ended, why_ending
from runspine.services.launcher.engines.slurm_script import arguments, job_name, parse_name, script
from runspine.services.launcher.pools import SlurmPool, read_pools
from runspine.wire.v1.facts_pb2 import (
    CANCELLED_BY_OPERATOR,
    ENGINE_CAUSE_UNSPECIFIED,
    ENGINE_REQUEUED,
    NODE_FAILED,
    PREEMPTED,
    TIME_LIMIT,
    EngineCause,
)
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import Limits, RunSpec
from tests.kit.paths import ROOT

NAME = "runspine-low-01JX-1-0"


def line(
    state: str, restarts: int = 0, preempt: str = "N/A", left: str = "4:56", reason: str = "None"
) -> str:
    nodes = "" if state == "PENDING" else "n1"
    return f"6|{NAME}|{state}|{restarts}|{nodes}|{preempt}|{left}|5:00|{reason}|\n"


@pytest.mark.parametrize(
    ("listed", "cause"),
    [
        (line("COMPLETING"), CANCELLED_BY_OPERATOR),
        (line("COMPLETING", restarts=1), ENGINE_REQUEUED),
        (line("COMPLETING", restarts=1, preempt="2026-11-19T21:34:37"), PREEMPTED),
        (line("RUNNING", preempt="2026-11-19T21:34:37"), PREEMPTED),
        (line("RUNNING", left="0:32"), TIME_LIMIT),
        (line("COMPLETING", left="INVALID", reason="TimeLimit"), TIME_LIMIT),
        (line("RUNNING"), ENGINE_CAUSE_UNSPECIFIED),
        ("", ENGINE_CAUSE_UNSPECIFIED),
    ],
)
def test_a_worker_that_slurm_signals_learns_why(listed: str, cause: EngineCause) -> None:
    jobs = parse_jobs(listed)
    stop = why_ending(jobs[0] if jobs else None, "6", 0, warning_seconds=30)
    assert stop.cause == cause
    assert "Slurm job 6" in stop.reason


def test_the_second_start_of_a_job_is_not_taken_for_another_requeue() -> None:
    [job] = parse_jobs(line("COMPLETING", restarts=1))
    assert why_ending(job, "6", 1, 30).cause == CANCELLED_BY_OPERATOR


def test_a_requeued_job_states_its_cause_as_far_as_its_node_is_known() -> None:
    [job] = parse_jobs(line("PENDING", restarts=1, reason="BeginTime"))
    stops = [why_ended(job, *seen) for seen in (("n1", True), ("n1", False), ("", False))]
    # Without its node its processes may still be there: the lease has to decide.
    causes = [NODE_FAILED, ENGINE_REQUEUED, ENGINE_CAUSE_UNSPECIFIED]
    assert [stop and stop.cause for stop in stops] == causes


def test_a_job_that_ended_by_itself_or_waits_was_ended_by_nobody() -> None:
    for state in ("COMPLETED", "PENDING", "RUNNING"):
        assert why_ended(parse_jobs(line(state))[0], "n1", False) is None


def test_lines_of_another_form_are_skipped() -> None:
    assert parse_jobs("a|b\n\nerror: away\n" + line("RUNNING")) == parse_jobs(line("RUNNING"))


@pytest.mark.parametrize(
    ("text", "seconds"), [("0:32", 32), ("1-02:03:04", 93_784), ("10:00:00", 36_000), ("UNLIMITED", None)]
)
def test_durations_are_read_as_slurm_writes_them(text: str, seconds: int | None) -> None:
    assert seconds_of(text) == seconds


def test_a_name_carries_run_attempt_and_restarts_whatever_the_pool_is_called() -> None:
    for pool in ("low", "a-b_c", "runspine"):
        assert parse_name(pool, job_name(pool, "01JX", 3, 1)) == ("01JX", 3, 1)
    assert parse_name("low", job_name("low-er", "01JX", 3, 1)) is None
    assert parse_name("low", "somebody-elses") is None


def test_a_job_asks_for_what_the_run_and_the_pool_name() -> None:
    pool = SlurmPool(
        launcher="slurm", partition="gpu", account="lab", qos="high", constraint="a100&nvme",
        gpu_gres="gpu:a100", time_limit_minutes=600, options=["--licenses=x"],
    )  # fmt: skip
    spec = RunSpec(gpus=2, limits=Limits(cpus=1.5, memory_mib=1024, wall_seconds=600))
    given = arguments(Run(id="01JX", attempt=2, spec=spec), "lab", pool)
    assert {
        "--partition=gpu",
        "--account=lab",
        "--qos=high",
        "--constraint=a100&nvme",
        "--gres=gpu:a100:2",
    } <= {*given}
    assert {"--cpus-per-task=2", "--mem=1536M", "--time=17", "--signal=B:USR1@120", "--licenses=x"} <= {
        *given
    }
    assert "--job-name=runspine-lab-01JX-2-0" in given


def test_options_that_the_launcher_sets_are_refused() -> None:
    with pytest.raises(ValueError, match="the launcher sets this option itself"):
        SlurmPool(launcher="slurm", options=["--no-requeue"])


def test_the_script_passes_values_on_as_they_are(tmp_path: Path) -> None:
    """Run by the shell: neither the file of settings nor a variable is interpreted."""
    hostile = "a b $(touch hacked) 'q' \"d\""
    env_file = tmp_path / "worker.env"
    env_file.write_text(f"# comment\n\nRUNSPINE_SECRET={hostile}\n")
    probe = tmp_path / "python"
    probe.write_text(
        f"#!/bin/sh\nexec {sys.executable} -c 'import json,os; print(json.dumps(dict(os.environ)))'\n"
    )
    probe.chmod(0o755)
    pool = SlurmPool(
        launcher="slurm", python=str(probe), env_file=str(env_file), variables={"RUNSPINE_OTHER": hostile},
        directory=f"{tmp_path}/work dir",
    )  # fmt: skip
    text = script(Run(id="01JX", attempt=1), "low", pool)
    slurm = {"SLURM_JOB_ID": "6", "SLURM_JOB_NAME": NAME, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["sh"], input=text, env=slurm, capture_output=True, text=True, check=True)
    received = json.loads(done.stdout)
    assert (received["RUNSPINE_SECRET"], received["RUNSPINE_OTHER"]) == (hostile, hostile)
    assert received["RUNSPINE_WORKER_ID"] == "slurm-01JX-6-0"
    again = subprocess.run(
        ["sh"],
        input=text,
        env={**slurm, "SLURM_RESTART_COUNT": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "not renamed" in again.stdout


def test_the_example_of_pools_is_accepted() -> None:
    assert {type(pool) for pool in read_pools(ROOT / "examples" / "slurm_pools.yaml").values()} == {SlurmPool}

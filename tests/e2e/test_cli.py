"""The command line against a whole stack of its own."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kit.stack import Shell
from tests.kit.waiting import until

HELLO = "command=[python, hello_trainer.py, --seconds, {}]"


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    shell = Shell(tmp_path_factory.mktemp("stack") / "home")
    shell("up", "--detach", "--slots", "4")
    yield shell
    shell("down")


def test_a_run_is_followed_to_its_end(shell: Shell) -> None:
    done = shell("submit", "examples/hello.yaml", "--watch", "--set", HELLO.format(1))
    assert "runs on" in done.stdout
    assert "completed after" in done.stdout
    run_id = done.stdout.split()[0]
    shown = shell.json("show", run_id)
    assert shown["run"]["phase"] == "completed"
    assert shown["run"]["counts"]["episodes"] > 50
    assert shown["warnings"] == []
    kinds = [kind for fact in shown["facts"] for kind in fact if kind != "at"]
    assert kinds[0] == "run_submitted"
    assert {"attempt_started", "attempt_exited", "run_completed"} <= set(kinds)


def test_a_failing_command_is_exit_code_1_with_its_last_words(shell: Shell) -> None:
    done = shell("submit", "--watch", "--", "sh", "-c", "echo broken pipe dream >&2; exit 3", code=1)
    assert "exit code 3" in done.stdout
    run_id = done.stdout.split()[0]
    assert "broken pipe dream" in shell("show", run_id[:14].lower()).stdout
    assert "broken pipe dream" in shell("logs", run_id).stdout


def test_a_run_that_trained_nothing_warns(shell: Shell) -> None:
    assert "no step, episode or metric was captured" in shell("submit", "--watch", "--", "true").stdout


def test_the_same_key_gives_the_same_run(shell: Shell) -> None:
    first = shell.json("submit", "--key", "k1", "--", "true")["runs"][0]
    again = shell.json("submit", "--key", "k1", "--", "true")["runs"][0]
    assert (first["created"], again["created"]) == (True, False)
    assert first["run"]["id"] == again["run"]["id"]


def test_a_sweep_is_one_group(shell: Shell) -> None:
    arguments = (
        "submit",
        "examples/hello_sweep.yaml",
        "--set",
        "sweep.command=[[true], ['true']]",
        "--key",
        "s1",
    )
    shown = shell.json(*arguments)
    assert len(shown["runs"]) == 4
    assert {r["run"]["id"] for r in shell.json(*arguments)["runs"]} == {r["run"]["id"] for r in shown["runs"]}
    listed = shell.json("ls", "--label", f"group={shown['group']}")
    assert listed["total"] == 4


def test_runs_are_found_by_what_their_program_was_given(shell: Shell, tmp_path: Path) -> None:
    script = (
        "import argparse; p = argparse.ArgumentParser(); p.add_argument('--lr', type=float); p.parse_args()"
    )
    (tmp_path / "train.py").write_text(script)
    (tmp_path / "run.yaml").write_text(
        "runner: script\ncommand: [python, train.py, --lr, '{params.lr}']\nlabels: {of: where}\n"
        "sweep: {params.lr: [1e-4, 1e-2]}\n"
    )
    for run in shell.json("submit", str(tmp_path / "run.yaml"))["runs"]:
        shell.until(run["run"]["id"], "completed")
    for field in ("params.lr", "config.lr"):
        arguments = ("ls", "--label", "of=where", "--where", f"{field}<1e-3", "--columns", "config.lr")
        (found,) = shell.json(*arguments)["runs"]
        assert found["columns"] == {"config.lr": 1e-4}
        assert "0.0001" in shell(*arguments).stdout
    (tmp_path / "run.yaml").write_text(
        "runner: script\ncommand: [python, train.py]\nsweep: {params.lr: [1, 2]}\n"
    )
    refused = shell("submit", str(tmp_path / "run.yaml"), code=2)
    assert "sweep.params.lr: nothing reads it" in refused.stderr


def test_cancel_waits_for_the_end(shell: Shell) -> None:
    run_id = shell.submit("examples/hello.yaml", "--set", HELLO.format(600))
    shell.until(run_id, "running")
    assert "cancelled" in shell("cancel", run_id, "--wait", "--reason", "enough").stdout
    shown = shell.json("show", run_id)
    assert shown["run"]["reason"] == "enough"
    shell("watch", run_id, code=1)
    shell("cancel", "no-such-run", code=4)


def test_an_interrupted_watch_leaves_the_run_alone(shell: Shell) -> None:
    run_id = shell.submit("examples/hello.yaml", "--set", HELLO.format(600))
    shell.until(run_id, "running")
    watching = shell.start("watch", run_id)
    assert watching.stdout is not None
    watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, stderr = watching.communicate(timeout=120)
    assert f"runspine cancel {run_id}" in stderr
    assert watching.returncode == 130
    assert shell.json("show", run_id)["run"]["phase"] == "running"
    shell("cancel", run_id, "--wait")


def test_resubmit_makes_a_new_run_with_changes(shell: Shell) -> None:
    old = shell.submit("--name", "first", "--", "true")
    new = shell.json("resubmit", old, "--set", "labels.try=2", "--set", "seed=9")["runs"][0]["run"]
    assert new["parent"] == old
    assert new["labels"] == {"try": "2"}
    assert new["spec"]["seed"] == 9
    assert new["name"] != "first"


def test_labels_and_listing(shell: Shell) -> None:
    run_id = shell.submit("--label", "team=a", "--label", "old=1", "--", "true")
    assert shell.json("label", run_id, "team=b", "old-")["run"]["labels"] == {"team": "b"}
    listed = shell("ls", "--label", "team=b").stdout
    assert run_id[:12] in listed
    assert shell.json("ls", "--label", "team=a")["total"] == 0


def test_a_refused_command_is_exit_code_5(shell: Shell) -> None:
    run_id = shell.submit("--", "true")
    shell.until(run_id, "completed")
    assert "completed" in shell("priority", run_id, "90", code=5).stderr.lower()


def test_the_servers_objection_names_the_line(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("runner: scrpt\ncommand: [ls]\n")
    stderr = shell("validate", str(tmp_path / "run.yaml"), code=2).stderr
    assert "run.yaml:1" in stderr
    assert "script" in stderr


def test_logs_follow_to_the_end_and_filter(shell: Shell) -> None:
    run_id = shell.submit("--", "sh", "-c", "for i in 1 2 3 4 5; do echo line $i; sleep 0.1; done")
    lines = shell("logs", run_id, "-f").stdout.splitlines()
    assert [line for line in lines if line.startswith("line")] == [f"line {i}" for i in range(1, 6)]
    assert shell("logs", run_id, "--grep", "line [24]").stdout.splitlines() == ["line 2", "line 4"]
    assert shell("logs", run_id, "--tail", "1", "--attempt", "1").stdout.splitlines() == ["line 5"]


def test_the_log_is_verified_exported_and_verified_again(shell: Shell, tmp_path: Path) -> None:
    shell.submit("--", "true")
    assert shell.json("events", "verify")["whole"] is True
    shown = shell.json("events", "export", str(tmp_path / "log.gz"))
    assert shown["commits"] > 0
    assert shell.json("events", "verify", "--file", str(tmp_path / "log.gz"))["whole"] is True


def test_the_fleet_is_shown(shell: Shell) -> None:
    (worker,) = shell.json("workers")["workers"]
    assert worker["online"] is True
    assert "script" in shell("runners").stdout
    assert shell.json("runners", "script")["takes_command"] is True
    shell("runners", "scrpt", code=4)


def test_an_algorithm_is_explained_on_the_command_line(shell: Shell) -> None:
    explained = shell("runners", "builtin", "--algo", "ppo").stdout
    assert "clip_coef" in explained
    assert "**By env family**" in explained
    assert shell.json("runners", "builtin", "--algo", "dqn")["help"].startswith("Deep Q-learning")
    assert all(algo["help"] for algo in shell.json("runners", "builtin")["algos"])
    assert not any(algo["help"] for runner in shell.json("runners")["runners"] for algo in runner["algos"])
    shell("runners", "builtin", "--algo", "pppo", code=4)
    shell("runners", "script", "--algo", "ppo", code=4)


def test_a_watch_outlives_the_orchestrator(shell: Shell) -> None:
    run_id = shell.submit("examples/hello.yaml", "--set", HELLO.format(8))
    shell.until(run_id, "running")
    watching = shell.start("watch", run_id)
    assert watching.stdout is not None
    watching.stdout.readline()
    home = Path(shell.environment["RUNSPINE_HOME"])
    os.kill(json.loads((home / "stack.json").read_text())["pids"]["orchestrator"], signal.SIGKILL)
    out, stderr = watching.communicate(timeout=180)
    assert watching.returncode == 0, stderr
    assert "completed after" in out


def test_a_terminal_on_a_worker_feels_like_one_here(shell: Shell) -> None:
    run_id = shell.submit("--", "python", "-c", "import time; print('ready', flush=True); time.sleep(600)")
    until(lambda: "ready" in shell("logs", run_id).stdout)
    assert "<module> (<string>:1)" in shell("stack", run_id).stdout
    assert shell("attach", run_id, "--", "sh", "-c", "echo given; exit 4", code=4).stdout.strip() == "given"
    master, slave = os.openpty()
    termios.tcsetwinsize(slave, (31, 99))
    before = termios.tcgetattr(slave)
    words = [sys.executable, "-m", "runspine", "attach", run_id, "--", "/bin/sh"]
    client = subprocess.Popen(words, env=shell.environment, stdin=slave, stdout=slave, stderr=slave)
    try:
        shown = b""

        def sees(text: bytes) -> None:
            nonlocal shown
            while text not in shown:
                assert select.select([master], [], [], 60)[0], shown
                shown += os.read(master, 4096)

        sees(b"Ctrl-] ends it")
        os.write(master, b"stty size; echo $((6 * 7)) answers\n")
        sees(b"31 99")
        sees(b"42 answers")
        # Ctrl-C is for the program there, Ctrl-] for the one here.
        os.write(master, b"sh -c 'echo begun; sleep 600'\n")
        sees(b"begun\r")
        os.write(master, b"\x03echo still $((1 + 1))\n")
        sees(b"still 2")
        os.write(master, b"\x1d")
        assert client.wait(60) != 0
    finally:
        client.kill()
        client.wait()
    assert termios.tcgetattr(slave) == before
    os.close(master)
    os.close(slave)
    shell("cancel", run_id, "--wait")
    refused = shell("attach", run_id, code=5)
    assert "the run is CANCELLED: it has no processes" in refused.stderr

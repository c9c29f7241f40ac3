"""`runspine hosts`: an invitation as a line, and over the user's ssh without a token in its arguments."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from runspine.cli.commands.stack.hosts import hosts, join
from runspine.embedded.home import Home
from runspine.hosts.joining import unit_text
from runspine.hosts.register import HostRegister, split_token


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    Home.at(path).prepare()
    HostRegister(Home.at(path)).prepare("192.0.2.1:7443")
    return path


def test_an_invitation_is_one_line_to_enter_elsewhere(home: Path) -> None:
    done = CliRunner().invoke(hosts, ["invite", "gpu1", "--home", str(home)])
    assert done.exit_code == 0, done.output
    program, command, address, token = done.output.split()
    assert (program, command, address) == ("runspine", "join", "192.0.2.1:7443")
    assert split_token(token)
    # The secret itself is nowhere in the home.
    stored = (home / "hosts" / "register.json").read_text()
    assert token[64:] not in stored
    assert json.loads(stored)["hosts"] == {}


def test_a_host_is_added_over_ssh_with_the_token_on_its_stdin(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "record"
    ssh = tmp_path / "bin" / "ssh"
    ssh.parent.mkdir()
    ssh.write_text(f'#!/bin/sh\necho "$@" > {record}\ncat >> {record}\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{ssh.parent}:{os.environ['PATH']}")
    done = CliRunner().invoke(
        hosts, ["add", "me@gpu1.lab", "--home", str(home), "--runspine", "/opt/runspine"]
    )
    assert done.exit_code == 0, done.output
    arguments, token = record.read_text().splitlines()
    assert arguments == "-- me@gpu1.lab /opt/runspine join 192.0.2.1:7443 -"
    assert split_token(token)
    assert CliRunner().invoke(hosts, ["add", "-oProxyCommand=x", "--home", str(home)]).exit_code == 2


def test_a_machine_that_has_not_joined_learns_what_to_enter(tmp_path: Path) -> None:
    done = CliRunner().invoke(join, ["--folder", str(tmp_path)])
    assert "has not joined a stack" in str(done.exception)
    assert CliRunner().invoke(join, ["192.0.2.1:7443", "--folder", str(tmp_path)]).exit_code == 2


def test_the_unit_starts_the_agent_again_unless_the_host_was_removed(tmp_path: Path) -> None:
    text = unit_text(tmp_path)
    assert f'-m runspine.hosts.agent "{tmp_path}"' in text
    assert "Restart=on-failure" in text

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.embedded.binaries import find_binary
from runspine.embedded.credentials import Credentials, load_credentials
from runspine.embedded.home import Home
from runspine.embedded.nats_config import deploy_config, render
from runspine.embedded.part import StackPart
from runspine.embedded.plan import StackOptions, cores, needed_environment, plan, trainer_environment
from runspine.embedded.ports import PortBook
from runspine.embedded.processes import tethered
from runspine.eventlog.permissions import USERS
from runspine.eventlog.subjects import is_token
from tests.kit.paths import ROOT


class Drawing:
    """A plan on paper: nothing is started."""

    def __init__(self, path: Path) -> None:
        self.home = Home.at(path)
        self.home.prepare()
        self.credentials: Credentials = load_credentials(self.home)
        self.ports = PortBook(self.home.ports_file, use_defaults=False)

    def parts(self, options: StackOptions) -> dict[str, StackPart]:
        return {part.name: part for part in plan(self.home, options, self.credentials, self.ports)}


@pytest.fixture
def drawing(tmp_path: Path) -> Iterator[Drawing]:
    drawn = Drawing(tmp_path / "home")
    yield drawn
    drawn.ports.close()


def test_the_stores_come_before_those_who_need_them(drawing: Drawing) -> None:
    names = list(drawing.parts(StackOptions()))
    assert names[:2] == ["nats", "s3"]
    order = ["nats", "s3", "orchestrator", "telemetry", "artifacts", "worker", "dashboard"]
    assert names == [name for name in order if name in names]


def test_each_service_gets_its_own_password_and_not_those_of_others(drawing: Drawing) -> None:
    for name, part in drawing.parts(StackOptions()).items():
        others = {user: word for user, word in drawing.credentials.nats.items() if user != name}
        assert not set(others.values()) & set(part.variables.values())


def test_each_service_signs_with_a_key_of_its_own_and_none_has_the_root_key(drawing: Drawing) -> None:
    given, parts = drawing.credentials, drawing.parts(StackOptions())
    root = given.root_key.rstrip(":")
    for name, part in parts.items():
        assert not any(root in value for value in part.variables.values())
        others = {key for service, key in given.signing.items() if service != name}
        assert not others & set(part.variables.values())
    if "worker" in parts:
        assert parts["worker"].variables["RUNSPINE_SIGNING_KEY"] == given.signing["worker"]


def test_trainers_see_neither_the_home_nor_what_the_user_hides(
    drawing: Drawing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSPINE_SANDBOX_HIDDEN", "/srv/keys,/srv/more")
    for part in drawing.parts(StackOptions(only={"worker"})).values():
        assert part.variables["RUNSPINE_SANDBOX_HIDDEN"] == f"{drawing.home.path},/srv/keys,/srv/more"


def test_nothing_secret_stands_on_a_command_line(drawing: Drawing) -> None:
    given = drawing.credentials
    secrets = [*given.nats.values(), given.s3_secret_key, given.s3_signing_key, given.token]
    secrets += [given.root_key, *given.signing.values()]
    for part in drawing.parts(StackOptions()).values():
        assert not any(secret in word for secret in secrets for word in part.command)


def test_several_workers_share_the_cores_and_have_names_of_their_own(drawing: Drawing) -> None:
    parts = drawing.parts(StackOptions(workers=2, only={"worker"}))
    if not parts:
        pytest.skip("the worker is not part of this installation")
    assert list(parts) == ["worker-1", "worker-2"]
    ids = [part.variables["RUNSPINE_WORKER_ID"] for part in parts.values()]
    assert all(is_token(worker_id) for worker_id in ids)
    assert [worker_id[-2:] for worker_id in ids] == ["-1", "-2"]
    assert len({part.variables["RUNSPINE_WORKER_DIR"] for part in parts.values()}) == 2
    slots = {int(part.variables["RUNSPINE_WORKER_SLOTS"]) for part in parts.values()}
    assert slots == {max(1, cores() // 2)}
    assert all(part.death_signal is signal.SIGTERM for part in parts.values())


def test_a_service_sees_little_of_the_users_environment() -> None:
    given = {"PATH": "/bin", "HOME": "/h", "AWS_SECRET_ACCESS_KEY": "x", "RUNSPINE_TOKEN": "t", "LANG": "C"}
    kept = needed_environment(given)
    assert {name: kept[name] for name in ("PATH", "HOME", "LANG")} == {
        "PATH": "/bin",
        "HOME": "/h",
        "LANG": "C",
    }
    assert "AWS_SECRET_ACCESS_KEY" not in kept
    assert "RUNSPINE_TOKEN" not in kept


def test_trainers_get_what_the_user_names_and_their_usual_variables() -> None:
    given = {
        "RUNSPINE_PASS": "HF_HOME, MUJOCO_GL",
        "HF_HOME": "/hf",
        "MUJOCO_GL": "egl",
        "WANDB_API_KEY": "k",
        "CUDA_VISIBLE_DEVICES": "0",
        "AWS_PROFILE": "no",
    }
    assert trainer_environment(given) == {
        "HF_HOME": "/hf",
        "MUJOCO_GL": "egl",
        "WANDB_API_KEY": "k",
        "CUDA_VISIBLE_DEVICES": "0",
    }


def test_the_file_in_deploy_is_what_the_code_prints() -> None:
    assert (ROOT / "deploy/nats/nats.conf").read_text() == render(deploy_config())


def test_nats_server_accepts_the_file_in_deploy() -> None:
    passwords = {f"RUNSPINE_NATS_{user.upper()}_PASSWORD": f"p{user}" for user in USERS}
    checked = subprocess.run(
        [find_binary("nats-server"), "-t", "-c", ROOT / "deploy/nats/nats.conf"],
        env={**os.environ, **passwords},
        capture_output=True,
        text=True,
    )
    assert checked.returncode == 0, checked.stderr


def test_the_command_line_names_its_stack_commands_without_loading_the_stack() -> None:
    code = (
        "import sys; from runspine.cli.commands.stack.stack import up, down, status, doctor;"
        "heavy = ('runspine.embedded', 'nats', 'minio', 'rich', 'grpc', 'google');"
        "sys.exit(any(name.startswith(heavy) for name in sys.modules))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


def test_a_nice_part_stands_behind_others_also_where_sessions_share_the_cores() -> None:
    show = "import os; f = '/proc/self/autogroup'; print(os.nice(0), os.path.exists(f) and open(f).read())"
    command = tethered([sys.executable, "-c", show], signal.SIGKILL, niceness=5)
    done = subprocess.run(command, capture_output=True, text=True, start_new_session=True, check=True)
    own, _, session = done.stdout.partition(" ")
    # Nobody is nicer than 19.
    assert int(own) == min(19, os.nice(0) + 5)
    # Not every kernel shares cores out by session.
    assert "autogroup" not in session or session.split()[-1] == "5"

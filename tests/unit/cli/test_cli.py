from __future__ import annotations

import json
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.cli import SECTIONS, cli
from runspine.cli.errors import run
from runspine.rpc.endpoint import find_endpoint
from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT

HEAVY = ("grpc", "google.protobuf", "rich", "nats", "yaml", "pydantic", "structlog", "minio")


def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "runspine", *arguments],
        cwd=ROOT,
        env=clean_environment(**environment),
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom runspine.cli import cli\nfrom runspine.cli.errors import run\n"
        "run(cli, ['--help'])\n"
        f"print([m for m in sys.modules if m.startswith({HEAVY!r})], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stderr.strip() == "[]"


def test_help_is_there_at_once() -> None:
    """In processor time, so that a busy machine does not count."""
    took = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert command("--help").returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took) < 0.4


def test_help_lists_every_command_under_its_section() -> None:
    printed = command("--help").stdout
    for title, section in SECTIONS.items():
        assert f"{title}:" in printed
        for name, entry in section.items():
            assert f"  {name}" in printed
            assert entry.summary in printed


@pytest.mark.parametrize("name", [n for s in SECTIONS.values() for n in s if n != "bench"])
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(cli, [name, "--help"]) == 0
    assert "Usage: runspine" in capsys.readouterr().out


def test_commands_do_not_load_nats() -> None:
    # These speak with the stores themselves.
    direct = ("bench", "backup", "restore")
    modules = {e.target.split(":")[0] for s in SECTIONS.values() for n, e in s.items() if n not in direct}
    code = (
        f"import sys, importlib\nfor m in {sorted(modules)!r}: importlib.import_module(m)\n"
        "print([m for m in sys.modules if m.split('.')[0] in ('nats', 'minio', 'structlog')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


def test_an_unknown_command_gets_the_nearest() -> None:
    done = command("sumbit")
    assert done.returncode == 2
    assert "Did you mean submit?" in done.stderr


def test_a_python_of_peers_that_is_not_there_is_refused_before_anything_is_measured() -> None:
    done = command("bench", "report", "--peers", "/no/python")
    assert done.returncode == 2
    assert "--peers: '/no/python' is not a program" in done.stderr


def test_usage_errors_are_json_when_json_is_asked_for() -> None:
    done = command("ls", "--limit", "x", "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert json.loads(done.stderr)["error"]["kind"] == "usage"


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that is taken but not listened on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield taken.getsockname()[1]


@pytest.mark.alone
def test_a_stack_that_is_down_is_exit_code_3_at_once(tmp_path: Path, closed_port: int) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    stack = {"pid": ended.pid, "addresses": {"orchestrator": f"127.0.0.1:{closed_port}"}}
    (tmp_path / "stack.json").write_text(json.dumps(stack))
    began = time.monotonic()
    done = command("ls", RUNSPINE_HOME=str(tmp_path))
    assert done.returncode == 3
    assert "is the stack up? try `runspine up`" in done.stderr
    assert f"127.0.0.1:{closed_port}" in done.stderr
    assert time.monotonic() - began < 4
    done = command("ls", "--json", RUNSPINE_HOME=str(tmp_path))
    assert json.loads(done.stderr)["error"]["kind"] == "unreachable"


def test_a_token_on_disk_goes_only_to_its_own_stack(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text(json.dumps({"pid": 0, "addresses": {"orchestrator": "127.0.0.1:1"}}))
    (tmp_path / "credentials.json").write_text(json.dumps({"token": "secret"}))
    home = {"RUNSPINE_HOME": str(tmp_path)}
    own = find_endpoint(home)
    assert (own.trainer, own.token) == ("127.0.0.1:1", "secret")
    assert "secret" not in repr(own)
    assert find_endpoint({**home, "RUNSPINE_ADDRESS": "elsewhere:1"}).token == ""
    assert find_endpoint({**home, "RUNSPINE_ADDRESS": "elsewhere:1", "RUNSPINE_TOKEN": "t"}).token == "t"


def test_a_bad_file_is_exit_code_2_and_names_the_line(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("runner: script\nsede: 3\n")
    done = command("submit", str(tmp_path / "run.yaml"))
    assert done.returncode == 2
    assert "run.yaml:2: sede: unknown field" in done.stderr
    assert "Did you mean 'seed'?" in done.stderr
    done = command("submit", str(tmp_path / "run.yaml"), "--json")
    (field,) = json.loads(done.stderr)["error"]["fields"]
    assert field["field"] == "sede"
    assert field["where"].endswith("run.yaml:2")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["submit"], "Give a run file"),
        (["submit", "--"], "No command after"),
        (["submit", "x.yaml", "--", "ls"], "not both"),
        (["label", "run", "x"], "expected key=value"),
        (["ls", "--since", "yesterdayish"], "expected an age"),
        (["logs", "x", "--grep", "("], "not a regular expression"),
        (["priority", "x", "101"], "0<=x<=100"),
    ],
)
def test_wrong_usage_is_refused_before_the_stack_is_asked(arguments: list[str], words: str) -> None:
    done = command(*arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_relative_folder_of_an_export_is_that_of_the_shell(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from runspine.cli.commands.analysis.export import export

    monkeypatch.chdir(tmp_path)
    for given, meant in ((".", tmp_path), ("data", tmp_path / "data")):
        ctx = export.make_context("export", ["RUN", "--to", "minari", "--out", given])
        assert ctx.params["out"] == meant


def test_offline_validation_needs_no_stack() -> None:
    done = command("validate", "examples/hello.yaml", "--offline", "--json")
    assert done.returncode == 0
    (checked,) = json.loads(done.stdout)["runs"]
    assert checked["spec"]["total_steps"] == 20_000


def test_the_schema_is_printed_as_it_is_stored() -> None:
    done = command("validate", "--schema")
    assert json.loads(done.stdout) == json.loads((ROOT / "runspine" / "runfile.schema.json").read_text())


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_complete(shell: str) -> None:
    done = command("completion", shell)
    assert done.returncode == 0
    assert "_RUNSPINE_COMPLETE" in done.stdout
    assert "To install" in done.stdout


def test_completion_offers_commands_without_loading_them() -> None:
    done = command(_RUNSPINE_COMPLETE="bash_complete", COMP_WORDS="runspine su", COMP_CWORD="1")
    assert done.stdout.split() == ["plain,submit"]


def test_a_reader_that_leaves_is_no_traceback() -> None:
    pipe = subprocess.Popen(
        [sys.executable, "-m", "runspine", "validate", "--schema"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert pipe.stdout is not None
    assert pipe.stderr is not None
    pipe.stdout.close()
    assert pipe.stderr.read() == b""
    pipe.stderr.close()
    pipe.wait(timeout=120)


def test_the_hello_trainer_speaks_the_protocol_and_ends_well() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "hello_trainer.py"), "--seconds", "0.2", "--seed", "3"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert lines[0]["type"] == "config"
    assert lines[0]["seed"] == 3
    metrics = [line for line in lines if line["type"] == "metric"]
    episodes = [line for line in lines if line["type"] == "episode"]
    assert metrics[-1]["step"] == 20_000
    assert sum(e["return"] for e in episodes[-10:]) > sum(e["return"] for e in episodes[:10])

"""Programs started as they are, and recorded through their environment."""

from __future__ import annotations

import os
import signal
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from runspine.instrument.startup_variables import FOLDER
from runspine.services.worker.process.environment import trainer_environment
from runspine.services.worker.runners.script import ScriptRunner
from runspine.wire.v1.spec_pb2 import Capture, RunSpec
from tests.kit.samples.sdk import of_type
from tests.kit.trainers.instrumented import Program
from tests.kit.waiting import until

STEPS = """
import gymnasium as gym
env = gym.make("MountainCar-v0", max_episode_steps=10**6)
env.reset(seed=1)
for _ in range(30): env.step(0)
"""
SHOW = """
import signal, sys
print(__name__, sys.argv, sys.path, sys.flags, signal.getsignal(signal.SIGTERM), __spec__ and __spec__.name)
print([name for name in sys.modules if "runspine" in name or name == "numpy"], sys.meta_path[-3:])
"""


def run(folder: Path, script: str, *words: str, **how: Any) -> Program:
    (folder / "train.py").write_text(script)
    program = Program(folder, sys.executable, *words, "train.py", "--lr", "1", **how)
    program.wait()
    return program


def test_a_program_as_it_is_records_every_step(tmp_path: Path) -> None:
    done = run(tmp_path, STEPS)
    assert (done.process.returncode, done.steps) == (0, 30)
    assert done.output.read_text() == ""
    assert not list(tmp_path.glob(".launcher*"))


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (SHOW, ()),
        (SHOW, ("-u", "-X", "utf8")),
        (SHOW + "import nothing_of_that_name", ()),
        (SHOW + "sys.exit(7)", ()),
        (SHOW + "sys.exit('words')", ()),
        (SHOW + "import os; os.kill(os.getpid(), 15)", ()),
        ("raise KeyboardInterrupt", ()),
        ("def f(:", ()),
    ],
    ids=["plain", "options", "import error", "exit code", "exit text", "signal", "interrupt", "syntax"],
)
def test_output_exit_code_and_surroundings_are_those_of_a_bare_run(
    tmp_path: Path, script: str, words: tuple[str, ...]
) -> None:
    bare = run(tmp_path, script, *words, instrumented=False)
    alone = bare.output.read_text()
    bare.output.unlink()
    recorded = run(tmp_path, script, *words)
    assert recorded.process.returncode == bare.process.returncode
    assert recorded.output.read_text() == alone


def test_a_module_started_by_its_name_is_recorded(tmp_path: Path) -> None:
    package = tmp_path / "pkg"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(STEPS)
    program = Program(tmp_path, sys.executable, "-m", "pkg", "--lr", "1")
    assert (program.wait(), program.steps) == (0, 30)


def test_a_signal_ends_the_program_as_ever_and_its_steps_are_written(tmp_path: Path) -> None:
    script = STEPS + "open('ready', 'w').close()\nimport time\nwhile True: time.sleep(1)"
    (tmp_path / "train.py").write_text(script)
    program = Program(tmp_path, sys.executable, "train.py")
    until((tmp_path / "ready").exists, 120)
    program.process.send_signal(signal.SIGTERM)
    assert program.wait() == -signal.SIGTERM
    assert program.steps == 30


def test_a_handler_of_the_programs_own_stays(tmp_path: Path) -> None:
    handler = "import signal\nmine = lambda *_: None\nsignal.signal(signal.SIGTERM, mine)\n"
    done = run(tmp_path, handler + STEPS + "assert signal.getsignal(signal.SIGTERM) is mine")
    assert (done.process.returncode, done.steps) == (0, 30)


@pytest.mark.parametrize(
    "script",
    [
        "import runspine\n" + STEPS.replace("env.reset", "env = runspine.wrap(env); env.reset"),
        STEPS.replace("env.reset", "import own; env = own.recorded(env); env.reset"),
        "import runspine\n" + STEPS + "runspine.log_episode(-30, 30)",
        "import own\n" + STEPS.replace("env.reset", "own.episode(); env.reset"),
    ],
    ids=["wraps", "wraps elsewhere", "logs episodes", "logs episodes elsewhere"],
)
def test_a_program_that_uses_the_sdk_is_not_recorded_twice(tmp_path: Path, script: str) -> None:
    (tmp_path / "own.py").write_text(
        "import runspine\n"
        "def recorded(env):\n"
        "    import gymnasium\n"
        "    return runspine.wrap(gymnasium.wrappers.RecordEpisodeStatistics(env), slot=5)\n"
        "def episode(): runspine.log_episode(-30, 30)\n"
    )
    done = run(tmp_path, script)
    assert done.process.returncode == 0, done.output.read_text()
    wraps = "wrap(" in script or "recorded(env)" in script
    assert done.steps == (30 if wraps else 0)
    assert len(of_type(done.lines, "episode")) == (0 if wraps else 1)
    assert len(of_type(done.lines, "reset")) == (1 if wraps else 0)


def test_a_virtualenv_without_numpy_runs_the_program_and_states_it_once(tmp_path: Path) -> None:
    venv.create(tmp_path / "bare", with_pip=False)
    (tmp_path / "gymnasium.py").write_text("__version__ = '1.0'\n")
    (tmp_path / "train.py").write_text(
        "import gymnasium, subprocess, sys\nprint(gymnasium.__version__)\n"
        "if len(sys.argv) == 1: subprocess.run([sys.executable, __file__, 'again'], check=True)"
    )
    program = Program(tmp_path, str(tmp_path / "bare" / "bin" / "python"), "train.py")
    assert program.wait() == 0
    output = program.output.read_text()
    assert output.count("is not recorded: ModuleNotFoundError: No module named 'numpy'") == 1
    assert output.splitlines().count("1.0") == 2


def test_the_sitecustomize_of_a_site_still_runs(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text("import builtins; builtins.customised = True\n")
    script = "import sitecustomize; print(customised, sitecustomize.__file__)"
    done = run(tmp_path, script, PYTHONPATH=str(site))
    assert done.output.read_text() == f"True {site / 'sitecustomize.py'}\n"


def test_the_run_file_switches_it_off_and_a_python_path_of_its_own_is_kept(tmp_path: Path) -> None:
    def environment(**fields: Any) -> dict[str, str]:
        spec = RunSpec(command=["python", "train.py"], variables={"PYTHONPATH": "/mine"}, **fields)
        launch = ScriptRunner().launch(spec, tmp_path, sys.executable)
        how = {"run_id": "r", "attempt": 1, "run_dir": str(tmp_path)}
        return trainer_environment(spec, {}, variables=launch.variables, **how)  # type: ignore[arg-type]

    on, off = environment(), environment(capture=Capture(instrument=False))
    assert on["PYTHONPATH"] == f"{FOLDER}{os.pathsep}/mine"
    assert off["PYTHONPATH"] == "/mine"
    assert "RUNSPINE_INSTRUMENT" not in off

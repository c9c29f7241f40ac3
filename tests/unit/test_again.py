"""What failed beside other tests is tried once more alone, and nothing else is forgiven."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import again

BESIDE = ["-q", "-n", "1", "--dist", "loadfile"]
# Fails in the worker of a parallel run, as under load.
BY_CHANCE = """
import os
def test_by_chance(): assert "PYTEST_XDIST_WORKER" not in os.environ
"""
ALWAYS = "def test_always(): assert False\n"
GOOD = "def test_good(): pass\n"


def suite(folder: Path, **files: str) -> Path:
    (folder / "pytest.ini").write_text("[pytest]\n")
    for name, text in files.items():
        (folder / f"test_{name}.py").write_text(text)
    return folder


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner pytest is nobody's worker, and starts quickly."""
    monkeypatch.delenv("PYTEST_XDIST_WORKER", raising=False)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p xdist.plugin")


def test_what_passes_alone_is_named_and_the_run_is_good(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert again.run(BESIDE, suite(tmp_path, chance=BY_CHANCE, good=GOOD)) == 0
    said = capfd.readouterr().out
    assert "passed alone; mend the cause:\n  test_chance.py::test_by_chance" in said
    assert "1 passed, 1 deselected" in said or "1 passed in" in said


def test_what_fails_alone_as_well_has_failed(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert again.run(BESIDE, suite(tmp_path, chance=BY_CHANCE, always=ALWAYS)) == 1
    assert "mend the cause" not in capfd.readouterr().out


def test_a_good_run_is_not_repeated(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert again.run(["-q"], suite(tmp_path, good=GOOD)) == 0
    assert capfd.readouterr().out.count("1 passed") == 1


def test_more_than_a_handful_is_over_at_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    six = "".join(f"def test_{number}(): assert False\n" for number in range(again.A_HANDFUL + 1))
    assert again.run(["-q"], suite(tmp_path, many=six)) == 1
    said = capfd.readouterr().out
    assert "6 tests failed: too many" in said
    assert said.count("6 failed") == 1


def test_a_test_that_an_earlier_run_left_as_failed_is_not_this_ones(tmp_path: Path) -> None:
    root = suite(tmp_path, chance=BY_CHANCE, always=ALWAYS)
    assert again.run(["-q", "test_always.py"], root) == 1
    assert again.run([*BESIDE, "test_chance.py"], root) == 0


@pytest.mark.parametrize(
    ("arguments", "text", "code"),
    [
        (["-q"], "import pytest\ndef test_it(): pytest.exit('interrupted')\n", 2),
        (["-q"], "import nothing_of_this_name\n", 2),
        (["--no-such-option"], GOOD, 4),
        (["-q", "-k", "nothing"], GOOD, 5),
    ],
)
def test_interruptions_and_wrong_usage_stay_failures(
    tmp_path: Path, arguments: list[str], text: str, code: int
) -> None:
    assert again.run(arguments, suite(tmp_path, it=text)) == code


def test_an_error_of_pytest_itself_stays_a_failure(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text("def pytest_runtestloop(): raise RuntimeError('within')\n")
    assert again.run(["-q"], suite(tmp_path, good=GOOD)) == 3


def test_a_module_that_cannot_be_imported_fails_beside_others_and_alone(tmp_path: Path) -> None:
    assert again.run(BESIDE, suite(tmp_path, good=GOOD, broken="import nothing_of_this_name\n")) != 0

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.paths import ROOT
from tests.tools.nightly import Part, Result, counted, parts, run, table

REPORT = """<testsuites><testsuite>
<testcase name="a"/><testcase name="b"><failure message="no"/></testcase>
<testcase name="c"><skipped message="no GPU"/></testcase>
<testcase name="d"><skipped message="no GPU"/></testcase>
</testsuite></testsuites>"""


def test_tests_are_counted_and_skips_keep_their_reason(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text(REPORT)
    counts, reasons = counted(report)
    assert counts == {"passed": 1, "failed": 1, "skipped": 2}
    assert reasons == ["no GPU (2)"]


def test_a_part_that_cannot_run_is_in_the_table_with_its_reason(tmp_path: Path) -> None:
    result = run(Part("Ray", ("-m", "pytest"), lambda: "no Ray here"), tmp_path)
    assert result == Result("Ray", "not run", 0.0, "no Ray here")
    assert "not run" in table([result])
    assert "no Ray here" in table([result])


def test_a_failed_part_is_named(tmp_path: Path) -> None:
    assert run(Part("broken", ("-c", "raise SystemExit(3)")), tmp_path).outcome == "failed"
    assert run(Part("whole", ("-c", "pass")), tmp_path).outcome == "passed"


@pytest.mark.parametrize("part", parts(60), ids=lambda part: part.name)
def test_every_part_names_files_that_exist(part: Part) -> None:
    assert all((ROOT / word).exists() for word in part.arguments if word.startswith("tests/"))

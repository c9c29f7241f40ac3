"""Logging on a full disk."""

from __future__ import annotations

from pathlib import Path
from typing import TextIO, cast

import pytest
import structlog

from runspine.service.log_lines import UNWRITTEN, LogLines


def test_a_line_that_finds_no_room_is_counted_and_nothing_is_raised() -> None:
    """A service that logged a decision while its disk was full stopped with an error."""
    before = UNWRITTEN._value.get()
    full = open("/dev/full", "w")  # noqa: SIM115 - closing it raises, too
    log = structlog.PrintLogger(cast(TextIO, LogLines(full)))
    for _ in range(5):
        log.info("x" * 100_000)
    assert UNWRITTEN._value.get() > before
    with pytest.raises(OSError, match="No space left"):
        full.close()


def test_a_line_that_finds_room_is_written(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as file:
        structlog.PrintLogger(cast(TextIO, LogLines(file))).info("a line")
    assert (tmp_path / "log").read_text() == "a line\n"

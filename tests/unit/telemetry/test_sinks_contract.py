"""What every sink promises, whatever it writes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runspine.errors import RefusedError
from runspine.sinks.port import Mark
from tests.kit.samples.sinks import KINDS, Kind, batches, feed, rest

every_sink = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sinks may set variables of the tools they drive; not for other tests."""
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")


@every_sink
def test_all_that_was_fed_is_found_again(kind: Kind, tmp_path: Path) -> None:
    sink = kind.make(tmp_path)
    assert sink.open() == Mark()
    fed = batches(sink.kinds, 5)
    mark = feed(sink, fed, Mark())
    sink.describe({"gamma": 0.99})
    sink.commit(replace(mark, done=True))
    where = sink.close()
    assert Path(where).exists()
    assert kind.read(tmp_path) == kind.expected(fed)


@every_sink
def test_after_a_kill_nothing_is_doubled_and_nothing_missing(kind: Kind, tmp_path: Path) -> None:
    """However far it was when it died: with a commit behind it, with more fed than committed."""
    fed = batches(kind.make(tmp_path).kinds, 6)
    first = kind.make(tmp_path)
    mark = feed(first, fed[:4], first.open())
    first.commit(mark)
    feed(first, fed[4:7], mark)
    first.abandon()

    again = kind.make(tmp_path)
    found = again.open()
    assert found == (mark if kind.goes_on else Mark())
    mark = feed(again, rest(fed, found), found)
    again.commit(replace(mark, done=True))
    again.close()
    assert kind.read(tmp_path) == kind.expected(fed)


@every_sink
def test_an_output_that_has_all_of_an_ended_run_is_left_alone(kind: Kind, tmp_path: Path) -> None:
    sink = kind.make(tmp_path)
    fed = batches(sink.kinds, 3)
    mark = replace(feed(sink, fed, sink.open()), done=True)
    sink.commit(mark)
    sink.close()
    before = contents(tmp_path)
    again = kind.make(tmp_path)
    assert again.open() == mark
    again.close()
    assert contents(tmp_path) == before
    assert kind.read(tmp_path) == kind.expected(fed)


def contents(folder: Path) -> dict[Path, bytes]:
    """All files but the logs of W&B's own process, which it may still write when the run is finished."""
    files = (path for path in folder.rglob("*") if path.is_file() and path.parent.name != "logs")
    return {path: path.read_bytes() for path in files}


@every_sink
def test_one_that_was_closed_while_the_run_went_on_is_filled_up_later(kind: Kind, tmp_path: Path) -> None:
    sink = kind.make(tmp_path)
    fed = batches(sink.kinds, 5)
    sink.commit(feed(sink, fed[:3], sink.open()))
    sink.close()
    again = kind.make(tmp_path)
    mark = again.open()
    again.commit(replace(feed(again, rest(fed, mark), mark), done=True))
    again.close()
    assert kind.read(tmp_path) == kind.expected(fed)


@every_sink
def test_what_a_later_attempt_took_the_place_of_is_gone(kind: Kind, tmp_path: Path) -> None:
    """Attempt 2 goes on after step 29: what attempt 1 did beyond that did not happen."""
    sink = kind.make(tmp_path)
    past = batches(sink.kinds, 3)
    gone = batches(sink.kinds, 2, first=3)
    mark = feed(sink, [*past, *gone], sink.open())
    sink.commit(mark)
    mark = sink.supersede(29, mark)
    newer = batches(sink.kinds, 2, attempt=2, first=10)
    mark = feed(sink, [*rest(past, mark), *newer], mark)
    sink.commit(replace(mark, done=True))
    sink.close()
    assert kind.read(tmp_path) == kind.expected([*past, *newer])


@every_sink
def test_two_cannot_write_to_one_place(kind: Kind, tmp_path: Path) -> None:
    first = kind.make(tmp_path)
    first.open()
    second = kind.make(tmp_path)
    with pytest.raises(RefusedError, match="another export"):
        second.open()
    first.abandon()
    third = kind.make(tmp_path)
    assert third.open() == Mark()
    third.abandon()

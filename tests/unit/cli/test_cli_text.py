from __future__ import annotations

import time

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given
from hypothesis import strategies as st

from runspine.cli.commands.runs.ls import show_table
from runspine.cli.ui.follow import warnings
from runspine.cli.ui.screen import Cell, table
from runspine.spec.plain import json_text, to_plain
from runspine.text.facts import DESCRIPTIONS, describe, join_fitting
from runspine.text.values import (
    age,
    clock,
    escaped,
    local_time,
    middle_cut,
    moment,
    number,
    short_ids,
    span,
    without_colour,
)
from runspine.wire.v1 import (
    artifacts_pb2,
    facts_pb2,
    run_pb2,
    runner_pb2,
    spec_pb2,
    telemetry_pb2,
    trainer_pb2,
)
from runspine.wire.v1.facts_pb2 import SYNCED, Counts, Fact, Progress, RunFailed, Tracking
from runspine.wire.v1.run_pb2 import COMPLETED, FAILED, RUNNING, Run
from runspine.wire.v1.trainer_pb2 import RunSummary

HOSTILE = "a\x1b]0;evil\x07\x9b31m\u202e\u2066\r\nb\x00"


def test_no_text_of_a_server_can_act_on_the_terminal() -> None:
    shown = escaped(HOSTILE)
    assert shown == r"a\x1b]0;evil\x07\x9b31m\u202e\u2066\r\nb\x00"
    assert describe(Fact(run_failed=RunFailed(reason=HOSTILE))).isprintable()


@given(st.text())
def test_escaped_text_is_one_line_without_control_characters(text: str) -> None:
    shown = escaped(text)
    assert not any(ord(c) < 32 and c != "\t" for c in shown)
    assert "\x1b" not in shown
    assert len(shown.splitlines()) <= 1


def test_a_trainers_colours_are_dropped_and_the_rest_is_shown() -> None:
    assert without_colour("\x1b[1;31mred\x1b[0m \x1b[2J") == r"red \x1b[2J"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.25, "250 ms"),
        (12.9, "12 s"),
        (200, "3 m 20 s"),
        (7200, "2 h"),
        (7500, "2 h 5 m"),
        (350_000, "4 d 1 h"),
    ],
)
def test_lengths_of_time_are_short(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_ages_and_moments() -> None:
    now = 1_800_000_000.0
    assert age(int((now - 7500) * 1e6), now) == "2h"
    assert age(int((now + 5) * 1e6), now) == "now"
    assert moment("2h", now) == int((now - 7200) * 1e6)
    assert moment("1h30m", now) == int((now - 5400) * 1e6)
    assert moment("2026-01-02", now) == int(time.mktime((2026, 1, 2, 0, 0, 0, 0, 0, -1)) * 1e6)
    with pytest.raises(ValueError, match="soon"):
        moment("soon", now)


def test_numbers_read_well() -> None:
    assert number(1234567) == "1,234,567"
    assert number(23.512345) == "23.51"
    assert number(0.000312) == "0.000312"
    assert number(float("nan")) == "nan"


def test_long_names_keep_both_ends() -> None:
    assert middle_cut("abcdefghij", 7) == "abc…hij"
    assert middle_cut("short", 7) == "short"


@given(st.sets(st.text("0123456789ABCDEF", min_size=26, max_size=26), max_size=20))
def test_short_ids_are_unique_beginnings(ids: set[str]) -> None:
    short = short_ids(ids)
    assert len(set(short.values())) == len(ids)
    assert all(whole.startswith(part) and len(part) >= 12 for whole, part in short.items())


def test_every_kind_of_fact_has_words() -> None:
    kinds = {field.name for field in Fact.DESCRIPTOR.oneofs_by_name["kind"].fields}
    assert set(DESCRIPTIONS) == kinds
    for kind in kinds:
        fact = Fact()
        getattr(fact, kind).SetInParent()
        assert describe(fact)


def test_a_run_that_trained_nothing_has_a_warning() -> None:
    assert (
        "no step, episode or metric was captured"
        in warnings(Run(phase=COMPLETED, counts=Counts(log_lines=9)))[0]
    )
    assert warnings(Run(phase=COMPLETED, counts=Counts(episodes=1))) == []
    assert warnings(Run(phase=FAILED)) == []


def test_every_int64_of_the_contracts_is_a_time() -> None:
    """to_plain shows them as times; a count must be an unsigned or signed-by-zigzag field."""
    modules = (artifacts_pb2, facts_pb2, run_pb2, runner_pb2, spec_pb2, telemetry_pb2, trainer_pb2)
    known = {"at", "last_heard", "not_before", "since", "stalled_since"}
    known |= {"submitted_after", "submitted_before", "undo_until"}
    for module in modules:
        for message in module.DESCRIPTOR.message_types_by_name.values():
            for field in message.fields:
                if field.type == FieldDescriptor.TYPE_INT64:
                    assert field.name in known or field.name.endswith("_at"), field.full_name


def test_plain_output_has_a_stable_shape() -> None:
    plain = to_plain(Run(id="x", submitted_at=1_700_000_000_123_456))
    assert set(plain) == set(Run.DESCRIPTOR.fields_by_name)
    assert plain["submitted_at"] == "2023-11-14T22:13:20.123456Z"
    assert plain["ended_at"] is None
    assert plain["phase"] == ""
    assert plain["counts"] is None


def test_json_stays_json_for_numbers_it_cannot_hold() -> None:
    assert json_text({"a": float("nan"), "b": [float("-inf")]}) == '{"a": "NaN", "b": ["-Infinity"]}'


def test_plain_tables_align_wide_characters(capsys: pytest.CaptureFixture[str]) -> None:
    table(("NAME", "N"), [["環境", Cell("1", "red")], ["a\x1bb", "10"]], right=("N",))
    assert capsys.readouterr().out.splitlines() == ["NAME     N", "環境     1", r"a\x1bb  10"]


def test_a_narrow_terminal_gets_fewer_words_and_none_cut_in_half() -> None:
    words = ["step 99,840/100,000 (100 %)", "mean return 316.6", "619 episodes", "1,777 steps/s"]
    assert join_fitting(words, 200) == ", ".join(words)
    assert join_fitting(words, 48) == "step 99,840/100,000 (100 %), mean return 316.6"
    assert join_fitting(words, 5) == words[0]


@pytest.mark.parametrize("at", [-(2**63), -1_873_497_445_197_938_848, 2**63 - 1])
def test_a_time_beyond_every_calendar_is_shown_as_it_was_given(at: int) -> None:
    assert local_time(at) == clock(at) == f"{at} µs"


def test_the_list_of_runs_shows_the_last_return_the_last_step_and_the_state_at_wandb(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def summary(number: int, label: str = "", **fields: object) -> RunSummary:
        run = Run(id=f"01M7HEZFPP3BC8V4E08FWK23K{number}", phase=RUNNING, name=f"run-{number}")
        if label:
            run.labels["wandb"] = label
        return RunSummary(run=run, **fields)  # type: ignore[arg-type]

    moving = Progress(last_return=41.5, last_step_at=int((time.time() - 90) * 1e6))
    show_table(
        [
            summary(1, progress=moving, tracking=Tracking(service="wandb", state=SYNCED)),
            summary(2, "offline"),
            summary(3, "https://wandb.ai/lab/p/runs/x"),
            summary(4, "javascript:alert(1)"),
        ]
    )
    heading, *rows = capsys.readouterr().out.splitlines()
    assert heading.split()[-5:] == ["LATEST", "STEPPED", "AGE", "WORKER", "W&B"]
    assert "41.5" in rows[0]
    assert "90s" in rows[0] or "1m" in rows[0]
    assert [row.split()[-1] for row in rows[:3]] == ["synced", "offline", "exported"]
    assert "javascript" not in rows[3]
    show_table([summary(5)])
    assert not {"LATEST", "STEPPED", "W&B"} & set(capsys.readouterr().out.split()), "empty ones are left out"

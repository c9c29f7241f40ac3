"""Differences between runs, and telemetry compared bit by bit."""

from __future__ import annotations

import math
import struct

import pytest

from runspine.cli.ui.difference_report import text_diff
from runspine.code.tree import FILE, TreeEntry, make_tree
from runspine.reproduce.bisection import Bisection, is_good
from runspine.reproduce.differences import (
    code_differences,
    file_changes,
    package_differences,
    provenance_differences,
    spec_differences,
)
from runspine.reproduce.telemetry import RunTelemetry, compare_telemetry, is_timed
from runspine.wire.v1.facts_pb2 import Provenance
from runspine.wire.v1.spec_pb2 import Code, CodeOrigin, RunSpec, Value
from runspine.wire.v1.telemetry_pb2 import Array, MetricBlock, StepBlock


def block(
    rewards: list[float], *, first: int = 0, episode: str = "0-0", slot: int = 0, action: int = 1
) -> StepBlock:
    return StepBlock(
        episode_id=episode,
        slot=slot,
        first_step=first,
        count=len(rewards),
        action=Array(dtype="<i8", data=struct.pack(f"<{len(rewards)}q", *[action] * len(rewards))),
        reward=Array(dtype="<f8", data=struct.pack(f"<{len(rewards)}d", *rewards)),
        flags=bytes(len(rewards)),
    )


def telemetry(*blocks: StepBlock, **metrics: list[tuple[int, float]]) -> RunTelemetry:
    found = RunTelemetry()
    found.add_steps(blocks)
    found.add_metrics(
        [
            MetricBlock(name=name, steps=[step for step, _ in points], values=[value for _, value in points])
            for name, points in metrics.items()
        ]
    )
    return found


def test_the_same_steps_in_other_blocks_and_under_other_episode_ids_are_identical() -> None:
    whole = telemetry(block([1.0, 2.0, 3.0]), block([4.0], episode="0-1"), loss=[(1, 0.5)])
    cut = telemetry(block([1.0]), block([2.0, 3.0], first=1), block([4.0], episode="x"), loss=[(1, 0.5)])
    verdict = compare_telemetry(whole, cut)
    assert (verdict.identical, verdict.steps, verdict.points) == (True, 4, 1)


def test_the_first_step_that_differs_is_reported_over_all_slots() -> None:
    one = telemetry(block([1.0, 2.0, 3.0]), block([5.0, 6.0], slot=1))
    two = telemetry(block([1.0, 2.0, 3.5]), block([5.0, 7.0], slot=1))
    found = compare_telemetry(one, two).divergence
    assert found == ("slot 1", 1, "reward", "6.0", "7.0")


def test_another_action_comes_before_its_reward_and_a_missing_step_is_a_length() -> None:
    found = compare_telemetry(telemetry(block([1.0])), telemetry(block([2.0], action=0))).divergence
    assert found is not None
    assert (found.part, found.first, found.second) == ("action", "1", "0")
    shorter = compare_telemetry(telemetry(block([1.0, 1.0])), telemetry(block([1.0]))).divergence
    assert shorter == ("slot 0", 1, "length", "goes on", "no more")


def test_one_bit_of_a_metric_counts_and_nan_equals_itself() -> None:
    near = math.nextafter(0.1, 1)
    found = compare_telemetry(telemetry(loss=[(3, 0.1)]), telemetry(loss=[(3, near)])).divergence
    assert found == ("series loss", 3, "value", "0.1", repr(near))
    assert compare_telemetry(telemetry(loss=[(1, math.nan)]), telemetry(loss=[(1, math.nan)])).identical


def test_two_runs_without_telemetry_are_not_called_identical() -> None:
    verdict = compare_telemetry(telemetry(), telemetry())
    assert (verdict.compared, verdict.identical) == (False, False)


@pytest.mark.parametrize("name", ["charts/SPS", "system/cpu", "time/elapsed", "eval/duration", "step_time"])
def test_series_of_time_and_machine_are_left_out(name: str) -> None:
    assert is_timed(name)


@pytest.mark.parametrize("name", ["losses/value", "charts/episodic_return", "timeliness", "spsx"])
def test_other_series_are_compared(name: str) -> None:
    assert not is_timed(name)


def test_parameters_code_packages_and_surroundings_differ_by_name() -> None:
    one = RunSpec(runner="script", name="a", seed=1, params={"lr": Value(number=0.1)})
    two = RunSpec(runner="script", name="b", seed=2, params={"lr": Value(number=0.1), "n": Value(integer=3)})
    assert spec_differences(one, two) == [("params.n", "", "3"), ("seed", "1", "2")]
    one.code.CopyFrom(Code(tree="ab", files=3, origin=CodeOrigin(commit="c1")))
    two.code.CopyFrom(Code(tree="cd", files=4, origin=CodeOrigin(commit="c2")))
    assert [each.name for each in code_differences(one, two)] == ["origin.commit", "tree"]
    assert package_differences("a==1\nb==2\n", "b==3\nc==1\n") == [
        ("a", "1", ""),
        ("b", "2", "3"),
        ("c", "", "1"),
    ]
    machine = provenance_differences(
        Provenance(cpu="x", packages="1", determinism={"OMP_NUM_THREADS": "1"}),
        Provenance(cpu="y", packages="2", determinism={"OMP_NUM_THREADS": "2"}),
    )
    assert machine == [("cpu", "x", "y"), ("determinism.OMP_NUM_THREADS", "1", "2")]


def test_files_are_added_removed_or_changed() -> None:
    one = make_tree([TreeEntry("a", FILE, 1, "ab" * 32), TreeEntry("b", FILE, 1, "ab" * 32)])
    two = make_tree([TreeEntry("b", FILE, 1, "cd" * 32), TreeEntry("c", FILE, 1, "ab" * 32)])
    found = [(change.path, change.what) for change in file_changes(one, two)]
    assert found == [("a", "removed"), ("b", "changed"), ("c", "added")]
    assert [change.what for change in file_changes(None, one)] == ["added", "added"]
    assert file_changes(None, None) == []


def test_lines_of_text_are_shown_and_bytes_are_not() -> None:
    assert "+b" in text_diff("x.py", b"a\n", b"b\n")
    assert text_diff("x.bin", b"\xff\xfe", b"\xff") == ["x.bin: binary, 2 -> 1 bytes"]
    assert len(text_diff("x", b"", b"\n".join(b"%d" % n for n in range(5000)))) == 401


@pytest.mark.parametrize("length", range(1, 40))
def test_a_bisection_finds_every_first_bad_commit_in_few_runs(length: int) -> None:
    commits = [str(number) for number in range(length)]
    for first_bad in range(length):
        search, runs = Bisection(commits), 0
        while search.found is None:
            commit = search.next
            search.record(commit, good=int(commit) < first_bad)
            runs += 1
        assert search.found == str(first_bad)
        assert runs <= (length - 1).bit_length() + 1


def test_good_is_the_side_of_the_good_run() -> None:
    assert is_good(200, 150, good=180)
    assert not is_good(100, 150, good=180)
    assert is_good(0.1, 0.5, good=0.2)
    assert not is_good(0.9, 0.5, good=0.2)

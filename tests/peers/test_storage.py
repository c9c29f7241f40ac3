"""Faults of other tools' stores, tried on a whole stack of ours."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

from tests.kit.background_stack import NotThere, Shell, stack
from tests.kit.waiting import until

MEASURES = """
import json, os
for n in range({0}):
    print(json.dumps(dict(type="metric", name="loss", value=n, step=n)))
"""
CHECKPOINT = """
import json, os
open("model.bin", "wb").write(os.urandom(100_000))
print(json.dumps(dict(type="artifact", kind="checkpoint", path="model.bin", step=1)))
"""
WRITERS, POINTS = 8, 5000


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    home = tmp_path_factory.mktemp("peers") / "home"
    with stack(home, "--slots", str(WRITERS), RUNSPINE_JANITOR_SECONDS="0.5") as shell:
        yield shell


def bucket(shell: Shell) -> dict[str, int]:
    """How many objects are below each of the bucket's folders."""
    return {one["name"]: one["objects"] for one in shell.json("artifacts", "usage")["bucket"]}


@pytest.mark.long
def test_many_runs_of_one_project_write_at_once_while_somebody_reads(shell: Shell) -> None:
    """trackio#448: from the third job on that wrote to one project, writing to its database failed."""
    words = ("--seeds", f"1..{WRITERS}", "--label", "project=ablation")
    runs = shell.submit(MEASURES.format(POINTS), *words)
    waiting = set(runs)
    deadline = time.monotonic() + 120
    while waiting:
        assert time.monotonic() < deadline
        for run_id in sorted(waiting):
            with contextlib.suppress(NotThere):
                shell.json("metrics", run_id)
            if shell.run(run_id)["phase"] == "completed":
                waiting.discard(run_id)
    for run_id in runs:
        received = shell.json("show", run_id)["run"]
        assert (received["attempt"], received["counts"]["metrics"]) == (1, POINTS)
        [series] = shell.json("metrics", run_id)["series"]
        assert (series["points"], series["last"]) == (POINTS, POINTS - 1)


@pytest.mark.long
def test_points_of_runs_that_have_ended_are_a_few_objects_of_their_own(shell: Shell) -> None:
    """clearml-server#313: each point was a document in one index of all runs; at 1.5 billion it stalled."""
    before = bucket(shell).get("telemetry", 0)
    for points in (10, 20_000):
        [run_id] = shell.submit(MEASURES.format(points))
        shell.until(run_id, "completed")
        [series] = shell.json("metrics", run_id)["series"]
        assert series["points"] == points
    until(lambda: bucket(shell).get("telemetry", 0) > before)
    # Two thousand times as many points, and no more objects: a run's are its own, and nobody else reads them.
    until(lambda: bucket(shell)["telemetry"] - before <= 2 * 4)


@pytest.mark.long
def test_what_is_pruned_is_gone_from_the_bucket(shell: Shell) -> None:
    """mlflow#17240: after everything was deleted and collected, the model was still in object storage."""
    shell("retention", "set", "--grace", "0s", "--undo", "0s")
    [run_id] = shell.submit(CHECKPOINT)
    shell.until(run_id, "completed")
    until(lambda: bucket(shell).get("artifacts", 0) == 1)
    shell("prune", f"{run_id}:step-1", "--yes")
    until(lambda: not {"artifacts", "trash"} & bucket(shell).keys())
    assert shell.json("artifacts", "orphans")["objects"] == []
    assert shell.json("artifacts", "list", run_id)["artifacts"] == []

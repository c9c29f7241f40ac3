"""Validation of a fork: a run that begins in the middle of a recorded episode. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runspine.errors import Violation
from runspine.ids import is_ulid
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import MODE_UNSPECIFIED, TRAIN, ForkPoint, RunSpec

PLAY_COMMAND, TRAIN_COMMAND = "runspine play --fork RUN:EPISODE:STEP", "runspine fork RUN EPISODE --step STEP"


def fork_violations(spec: RunSpec, runners: Mapping[str, RunnerInfo]) -> Iterator[Violation]:
    """Every field of the fork that is wrong."""
    if spec.play.HasField("fork"):
        yield from _check_point(spec.play.fork, "spec.play.fork", PLAY_COMMAND)
        if spec.play.fork.every:
            yield Violation(
                "spec.play.fork.every", "is for a training: a session begins there once, remove it"
            )
    if not spec.HasField("fork"):
        return
    if spec.mode not in (TRAIN, MODE_UNSPECIFIED):
        yield Violation("spec.fork", "is for mode train alone: a session has play.fork, an evaluation none")
        return
    yield from _check_point(spec.fork, "spec.fork", TRAIN_COMMAND)
    info = runners.get(spec.runner)
    if info is not None and not info.forks:
        able = ", ".join(sorted(name for name, each in runners.items() if each.forks)) or "none"
        what = f"runner {spec.runner} cannot begin in the middle of an episode; those that can: {able}"
        yield Violation("spec.fork", what)


def _check_point(point: ForkPoint, field: str, command: str) -> Iterator[Violation]:
    if not is_ulid(point.run_id):
        what = f"{point.run_id[:80]!r} is not the id of a run: give all 26 characters"
        yield Violation(f"{field}.run_id", what)
    if not point.record:
        yield Violation(f"{field}.record", f"is missing: `{command}` puts the episode in")

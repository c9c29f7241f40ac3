"""Validation of a spec of mode evaluate. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspine.errors import Violation
from runspine.ids import is_ulid
from runspine.wire.v1.spec_pb2 import EVALUATE, RunSpec

# The returns of a batch are one value in one message.
MAX_VALUES = {"episodes": 10_000, "batches": 1_000_000, "video_frames": 10_000}
MAX_NAME = 200
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_NAME = re.compile(r"[^/\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*\Z")


def evaluation_violations(spec: RunSpec) -> Iterator[Violation]:
    """Every field of the evaluation that is wrong."""
    if spec.mode == EVALUATE:
        yield from _check_evaluation(spec)
    elif spec.HasField("evaluation"):
        yield Violation("spec.evaluation", "is for mode evaluate alone: remove it, or set mode: evaluate")


def _check_evaluation(spec: RunSpec) -> Iterator[Violation]:
    wanted = spec.evaluation
    if not _DIGEST.match(wanted.digest):
        what = f"{wanted.digest[:80]!r} is not a SHA-256 (64 characters 0-9 a-f): `runspine eval` finds it"
        yield Violation("spec.evaluation.digest", what)
    if wanted.run_id and not is_ulid(wanted.run_id):
        what = f"{wanted.run_id[:80]!r} is not the id of a run: give all 26 characters, or leave it out"
        yield Violation("spec.evaluation.run_id", what)
    if len(wanted.name) > MAX_NAME or not _NAME.match(wanted.name):
        what = f"{wanted.name[:80]!r} is not the name of a file: its last part alone, without folders"
        yield Violation("spec.evaluation.name", what)
    for field, limit in MAX_VALUES.items():
        if (given := getattr(wanted, field)) > limit:
            yield Violation(f"spec.evaluation.{field}", f"{given} is out of range: at most {limit}")
    if spec.HasField("warm_start"):
        yield Violation("spec.warm_start", "an evaluation begins with its checkpoint alone: remove it")
    if spec.params:
        yield Violation("spec.params", "an evaluation takes no parameters of a training: remove them")

"""What a spec of mode evaluate must fulfil. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from runspine.ids import is_ulid
from runspine.wire.v1.spec_pb2 import EVALUATE, RunSpec

DEFAULT_EPISODES = 50
# Returns of a batch travel as one value.
MOST = {"episodes": 10_000, "batches": 1_000_000, "video_frames": 10_000}
LONGEST_NAME = 200
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_NAME = re.compile(r"[^/\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*\Z")


def evaluation_flaws(spec: RunSpec) -> Iterator[tuple[str, str]]:
    """Each field that is wrong, and what to do about it."""
    if spec.mode == EVALUATE:
        yield from _of_evaluation(spec)
    elif spec.HasField("evaluation"):
        yield "spec.evaluation", "is for mode evaluate alone: remove it, or set mode: evaluate"


def _of_evaluation(spec: RunSpec) -> Iterator[tuple[str, str]]:
    wanted = spec.evaluation
    if not _DIGEST.match(wanted.digest):
        what = f"{wanted.digest[:80]!r} is not a SHA-256 (64 characters 0-9 a-f): `runspine eval` finds it"
        yield "spec.evaluation.digest", what
    if wanted.run_id and not is_ulid(wanted.run_id):
        what = f"{wanted.run_id[:80]!r} is not the id of a run: give all 26 characters, or leave it out"
        yield "spec.evaluation.run_id", what
    if len(wanted.name) > LONGEST_NAME or not _NAME.match(wanted.name):
        what = f"{wanted.name[:80]!r} is not the name of a file: its last part alone, without folders"
        yield "spec.evaluation.name", what
    for field, most in MOST.items():
        if (given := getattr(wanted, field)) > most:
            yield f"spec.evaluation.{field}", f"{given} is out of range: at most {most}"
    if spec.HasField("warm_start"):
        yield "spec.warm_start", "an evaluation begins with its checkpoint alone: remove it"
    if spec.params:
        yield "spec.params", "an evaluation takes no parameters of a training: remove them"

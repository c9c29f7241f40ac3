"""Validation of the dataset of a spec. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runspine.errors import Violation
from runspine.eventlog.subjects import is_token
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY, RunSpec

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
LIST_HINT = "`runspine datasets ls` lists them"


def dataset_violations(spec: RunSpec, runners: Mapping[str, RunnerInfo]) -> Iterator[Violation]:
    """Every field of the dataset that is wrong."""
    info = runners.get(spec.runner)
    algo = next((each for each in info.algos if each.name == spec.algo), None) if info else None
    if not spec.HasField("dataset"):
        if algo is not None and algo.needs_dataset and spec.mode not in (EVALUATE, PLAY):
            yield Violation(
                "spec.dataset", f"is missing: {spec.algo} learns from a registered one; {LIST_HINT}"
            )
        return
    wanted = spec.dataset
    if spec.mode in (EVALUATE, PLAY):
        what = "an evaluation" if spec.mode == EVALUATE else "a play session"
        yield Violation("spec.dataset", f"{what} acts in an env: remove it")
    elif info is not None and algo is not None and not algo.needs_dataset:
        yield Violation(
            "spec.dataset", f"{spec.algo} of runner {spec.runner} does not learn from a dataset: remove it"
        )
    elif info is not None and not info.datasets:
        yield Violation(
            "spec.dataset", f"runner {spec.runner} does not learn from datasets: remove it, or use corl"
        )
    if not _DIGEST.match(wanted.digest) and (wanted.digest or not wanted.name):
        what = f"{wanted.digest[:80]!r} is not a SHA-256 (64 characters 0-9 a-f): {LIST_HINT}"
        yield Violation("spec.dataset.digest", what)
    if wanted.name and not is_token(wanted.name):
        yield Violation(
            "spec.dataset.name", f"{wanted.name[:80]!r}: letters, digits, - and _, at most 64 of them"
        )

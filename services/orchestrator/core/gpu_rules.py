"""What a spec states about CUDA, compared with the GPUs that it asks for. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from runspine.errors import Violation
from runspine.wire.v1.spec_pb2 import RunSpec


def gpu_violations(spec: RunSpec) -> Iterator[Violation]:
    """A run without GPUs sees none, so one that requires CUDA would fail."""
    if _is_set(spec, "require_cuda") and not spec.gpus:
        what = "needs a GPU, and the run asks for none: set gpus to 1 or more, or remove it"
        yield Violation("spec.params.require_cuda", what)


def gpu_notices(spec: RunSpec) -> list[str]:
    """Where a run that could use a GPU will train."""
    if _is_set(spec, "cuda") and not spec.gpus:
        return ["trains on CPU: the run asks for no GPU; set gpus to 1 to train on one"]
    return []


def _is_set(spec: RunSpec, name: str) -> bool:
    return name in spec.params and spec.params[name].boolean

"""Validation of a spec's code. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runspine.errors import Violation
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec

MAX_TEXT = 500
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def code_violations(spec: RunSpec, runners: Mapping[str, RunnerInfo]) -> Iterator[Violation]:
    """Every field of the code that is wrong."""
    if not spec.HasField("code"):
        return
    code = spec.code
    info = runners.get(spec.runner)
    if info is not None and not info.takes_command:
        yield Violation(
            "spec.code", f"is for runners with a command: {spec.runner} brings its own, remove it"
        )
    if not code.tree and not code.image:
        yield Violation("spec.code.tree", "is missing: `runspine submit` stores a folder and fills it in")
    elif code.tree and code.image:
        yield Violation("spec.code.image", "excludes a stored tree: keep one of them")
    elif code.tree and not _DIGEST.match(code.tree):
        yield Violation("spec.code.tree", f"{code.tree[:80]!r} is not a SHA-256: 64 characters 0-9 a-f")
    if code.tree and spec.workdir:
        yield Violation("spec.workdir", "is not for stored code: use code.directory")
    parts = code.directory.split("/") if code.directory else []
    if any(part in ("", ".", "..") for part in parts) or _CONTROL.search(code.directory):
        what = f"{code.directory[:200]!r} is not a folder below the root of the code"
        yield Violation("spec.code.directory", what)
    if code.origin.diff and not _DIGEST.match(code.origin.diff):
        yield Violation("spec.code.origin.diff", "is not a SHA-256")
    for name in ("folder", "commit", "branch", "remote"):
        text = getattr(code.origin, name)
        if len(text) > MAX_TEXT or _CONTROL.search(text):
            yield Violation(
                f"spec.code.origin.{name}", f"at most {MAX_TEXT} characters, no control characters"
            )

"""Validation of a spec's packages. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runspine.errors import Violation
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec

MAX_SOURCE = 200
MAX_NAMES = 50
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_PYTHON = re.compile(r"3\.\d{1,2}(\.\d{1,3})?\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def packages_violations(spec: RunSpec, runners: Mapping[str, RunnerInfo]) -> Iterator[Violation]:
    """Every field of the packages that is wrong."""
    if not spec.HasField("packages"):
        return
    packages, info = spec.packages, runners.get(spec.runner)
    if info is not None and not info.takes_command:
        yield Violation(
            "spec.packages", f"are for runners with a command: {spec.runner} brings its own, remove them"
        )
    if not packages.tree:
        yield Violation(
            "spec.packages.tree", "is missing: `runspine submit` stores the files and fills it in"
        )
    elif not _DIGEST.match(packages.tree):
        yield Violation(
            "spec.packages.tree", f"{packages.tree[:80]!r} is not a SHA-256: 64 characters 0-9 a-f"
        )
    if packages.python and not _PYTHON.match(packages.python):
        yield Violation("spec.packages.python", f"{packages.python[:80]!r} is not a version such as 3.12")
    for field, names in (("extras", packages.extras), ("groups", packages.groups)):
        wrong = next((name for name in names if not _NAME.match(name)), None)
        if wrong is not None or len(names) > MAX_NAMES:
            what = f"{(wrong or '')[:80]!r} is not a name" if wrong is not None else f"more than {MAX_NAMES}"
            yield Violation(f"spec.packages.{field}", what)
    if len(packages.source) > MAX_SOURCE or _CONTROL.search(packages.source):
        what = f"at most {MAX_SOURCE} characters, no control characters"
        yield Violation("spec.packages.source", what)

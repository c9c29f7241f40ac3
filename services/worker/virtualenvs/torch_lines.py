"""Requirements of torch without what binds them to one kind of GPU: the worker's platform decides. Pure."""

from __future__ import annotations

import re

FAMILY = frozenset({"torch", "torchvision", "torchaudio"})
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_LOCAL = re.compile(r"(===?\s*[^\s;,+\\]+)\+[A-Za-z0-9._]+")
_HASH = re.compile(r"\s*--hash[=\s]\S+")
# Packages of the CUDA that one build of torch is linked with.
_CUDA = re.compile(r"nvidia-.*-cu\d+\Z|triton\Z|pytorch-triton.*\Z")


def without_platform(text: str) -> str:
    """The same requirements; torch without build and digests, and without the CUDA packages of one build.

    A text without torch is returned as it is.
    """
    lines = _logical_lines(text)
    if not any(_name(line) in FAMILY for line in lines):
        return text
    kept = []
    for line in lines:
        name = _name(line)
        if name in FAMILY:
            kept.append(_HASH.sub("", _LOCAL.sub(r"\1", line)))
        elif not _CUDA.match(name):
            kept.append(line)
    return "\n".join(kept) + "\n"


def _logical_lines(text: str) -> list[str]:
    return re.sub(r"\\\r?\n", " ", text).splitlines()


def _name(line: str) -> str:
    found = _NAME.match(line)
    return re.sub(r"[-_.]+", "-", found[1]).lower() if found else ""

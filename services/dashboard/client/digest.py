"""The digest of the client's sources, from which the built assets were made: `python digest.py`."""

from __future__ import annotations

import hashlib
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILES = ("build.mjs", "index.html", "package-lock.json", "package.json", "tsconfig.json")


def sources_digest() -> str:
    found = hashlib.sha256()
    for path in sorted([*(HERE / name for name in FILES), *(HERE / "src").rglob("*.*")]):
        found.update(f"{path.relative_to(HERE).as_posix()}\0".encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest() + "\n"


if __name__ == "__main__":
    print(sources_digest(), end="")  # noqa: T201 - the build reads it

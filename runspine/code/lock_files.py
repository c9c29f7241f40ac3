"""Files that list the packages of a run: requirements and what they include, or a project and its lock."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from runspine.errors import InvalidError, Violation

CAPTURE, NONE = "capture", "none"
LOCK, PROJECT, REQUIREMENTS = "uv.lock", "pyproject.toml", "requirements.txt"
MAX_BYTES = 16 << 20
MAX_FILES = 100
# Holds the files as they are named in the project; requirements.txt at the top includes the first of them.
FOLDER = "files"
_INCLUDE = re.compile(r"(?:-r|-c|--requirement|--constraint)[\s=]*(\S+)")
_LOCAL = re.compile(r"(?:-e\b|--editable\b|\.{0,2}/|~/|\.\Z|\.\[|file:)|[^@]*@\s*file:")
_EXACT = re.compile(r"===?[^=*]+(?:\s|;|\Z)|\s@\s")


@dataclass(frozen=True, slots=True)
class PackageFiles:
    """What a virtualenv is built from."""

    files: dict[str, bytes]
    # For people.
    source: str
    # Version of Python; empty for the worker's.
    python: str = ""
    # For people: what was left out, and which packages have no exact version.
    notes: tuple[str, ...] = ()


def listed_packages(lines: Sequence[str]) -> PackageFiles:
    """Packages given one by one. Raises InvalidError."""
    for line in lines:
        if not line.strip() or "\n" in line or line.lstrip().startswith("-"):
            raise _refused(f"{line[:80]!r} is not a package such as numpy==2.4.6")
        _check_line(line.strip(), "packages")
    text = "".join(f"{line.strip()}\n" for line in lines)
    return PackageFiles({REQUIREMENTS: text.encode()}, "list", notes=_loose(lines))


def read_package_files(choice: str, folder: Path) -> PackageFiles:
    """The files that one word names, from the folder of the run file. Raises InvalidError."""
    path = folder / choice
    if path.is_dir():
        path = path / LOCK if (path / LOCK).is_file() else path / REQUIREMENTS
    if path.name in (LOCK, PROJECT):
        return _project(path.parent)
    return _requirements(path, choice)


def _project(folder: Path) -> PackageFiles:
    if not (folder / LOCK).is_file():
        raise _refused(f"{folder / PROJECT} has no {LOCK} next to it: `uv lock` writes one")
    files = {name: _read(folder / name) for name in (PROJECT, LOCK)}
    return PackageFiles(files, LOCK)


def _requirements(path: Path, choice: str) -> PackageFiles:
    if not path.is_file():
        what = "a file of requirements, a folder with uv.lock, a list, capture or none"
        raise _refused(f"there is no {choice!r} in {path.parent}: give {what}")
    root, found, waiting = path.parent.resolve(), dict[str, bytes](), [path.name]
    lines: list[str] = []
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        if len(found) >= MAX_FILES:
            raise _refused(f"{choice} includes more than {MAX_FILES} files")
        found[name] = _read(root / name)
        for number, line in _lines(found[name]):
            if match := _INCLUDE.match(line):
                waiting.append(_included(name, match[1], f"{name}, line {number}"))
            else:
                _check_line(line, f"{name}, line {number}")
                lines.append(line)
    if set(found) == {path.name}:
        return PackageFiles({REQUIREMENTS: found[path.name]}, path.name, notes=_loose(lines))
    top = f"-r {FOLDER}/{path.name}\n".encode()
    files = {REQUIREMENTS: top, **{f"{FOLDER}/{name}": data for name, data in found.items()}}
    return PackageFiles(files, path.name, notes=_loose(lines))


def _included(name: str, given: str, where: str) -> str:
    """The path of an included file from the folder of the first."""
    found = posixpath.normpath(posixpath.join(posixpath.dirname(name), given))
    if "://" in given or found.startswith(("..", "/")):
        raise _refused(f"{where}: {given[:200]} is not below the folder of the first file: move it there")
    return found


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    """Logical lines without comments, with their numbers."""
    kept, first = "", 0
    for number, line in enumerate(data.decode(errors="replace").splitlines(), 1):
        text = re.sub(r"(^|\s)#.*", "", line).strip()
        first = first if kept else number
        if text.endswith("\\"):
            kept += text[:-1] + " "
            continue
        if whole := (kept + text).strip():
            yield first, whole
        kept = ""


def _check_line(line: str, where: str) -> None:
    if _LOCAL.match(line):
        what = "is on this machine alone: remove the line; the code of a run is imported from its folder"
        raise _refused(f"{where}: {line[:200]} {what}")


def _loose(lines: Sequence[str]) -> tuple[str, ...]:
    """A note on packages that each worker would choose a version of."""
    loose = [line.split()[0] for line in lines if not line.startswith("-") and not _EXACT.search(line)]
    if not loose:
        return ()
    names = ", ".join(loose[:5]) + (" …" if len(loose) > 5 else "")
    return (
        f"packages: {len(loose)} of {len(lines)} have no exact version ({names}): "
        "each worker installs the newest one there is when it builds them",
    )


def _read(path: Path) -> bytes:
    try:
        data = path.read_bytes() if path.stat().st_size <= MAX_BYTES else None
    except OSError as error:
        raise _refused(f"{path} cannot be read: {error.strerror}") from error
    if data is None:
        raise _refused(f"{path} has more than {MAX_BYTES >> 20} MiB")
    return data


def _refused(what: str) -> InvalidError:
    return InvalidError("the packages cannot be stored", [Violation("packages", what)])

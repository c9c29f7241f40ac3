"""The packages of the active virtualenv, as requirements with exact versions; nothing of it is run."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any

from runspine.code.lock_files import CAPTURE, REQUIREMENTS, PackageFiles
from runspine.errors import InvalidError, Violation

# Tools that install, which a virtualenv of a run has no use for.
LEFT_OUT = ("pip", "uv")
# Their builds for one kind of GPU have versions of their own; the worker's platform decides.
TORCH = ("torch", "torchvision", "torchaudio")
_VERSION = re.compile(r"(\d+)\.(\d+)")


def capture_packages(environment: Mapping[str, str] = os.environ) -> PackageFiles:
    """The packages of the virtualenv that is active, or that this command runs in. Raises InvalidError."""
    folder = _active(environment)
    places = [str(path) for path in folder.glob("lib/python3*/site-packages")]
    lines, missing = [], []
    for found in distributions(path=places):
        name = str(found.metadata["Name"] or "").lower()
        if not name or name in LEFT_OUT:
            continue
        line = _line(name, found)
        if line:
            lines.append(line)
        else:
            missing.append(name)
    if not lines:
        raise _refused(f"the virtualenv {folder} has no packages: install them, or leave packages out")
    return PackageFiles(
        {REQUIREMENTS: "".join(f"{line}\n" for line in sorted(set(lines))).encode()},
        CAPTURE,
        _python(folder),
        tuple(_notes(missing)),
    )


def _active(environment: Mapping[str, str]) -> Path:
    if environment.get("VIRTUAL_ENV"):
        folder = Path(environment["VIRTUAL_ENV"])
    elif sys.prefix != sys.base_prefix:
        folder = Path(sys.prefix)
    else:
        raise _refused("no virtualenv is active: activate the one to capture, or name a file of requirements")
    if not (folder / "pyvenv.cfg").is_file():
        raise _refused(f"{folder} (VIRTUAL_ENV) is not a virtualenv: activate it again")
    return folder


def _line(name: str, found: Distribution) -> str:
    """The requirement of a package; empty for one that is on this machine alone."""
    version = str(found.version)
    origin: dict[str, Any] = {}
    if text := found.read_text("direct_url.json"):
        try:
            origin = json.loads(text)
        except ValueError:
            origin = {}
    url = str(origin.get("url", ""))
    if "dir_info" in origin:
        return ""
    if isinstance(vcs := origin.get("vcs_info"), dict):
        return f"{name} @ {vcs.get('vcs', 'git')}+{url}@{vcs.get('commit_id', '')}"
    if url.startswith("https://"):
        return f"{name} @ {url}"
    return f"{name}=={version.partition('+')[0] if name in TORCH else version}"


def _python(folder: Path) -> str:
    """Version of its Python, such as 3.12."""
    for line in (folder / "pyvenv.cfg").read_text(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() in ("version", "version_info") and (match := _VERSION.match(value.strip())):
            return f"{match[1]}.{match[2]}"
    return ""


def _notes(missing: list[str]) -> Iterator[str]:
    if missing:
        names = ", ".join(sorted(missing))
        yield f"packages: without {names}, which came from a folder of this machine: workers do not have it"


def _refused(what: str) -> InvalidError:
    return InvalidError("the packages cannot be captured", [Violation("packages", what)])

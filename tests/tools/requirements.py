"""`python -m tests.tools.requirements`: what the images install, by version and SHA-256.

Writes `deploy/requirements/*.txt` with the hashes that the package index gives (PIP_INDEX_URL, or PyPI) for
the versions of constraints.txt. Run it after a change of a version; it needs the network. torch is left out:
an image takes it from an index of its own, by version.
"""

from __future__ import annotations

import html
import os
import re
import sys
import urllib.request
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, requires

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

from tests.kit.paths import ROOT

FOLDER = ROOT / "deploy/requirements"
# Extras by image. setuptools builds the package of the checkout.
IMAGES = {
    "service": "orchestrator,telemetry,artifacts,dashboard",
    "worker": "worker,builtin,sb3,replay",
}
BUILD = ("setuptools",)
FROM_ANOTHER_INDEX = {"torch", "triton"}
MACHINES = ("x86_64", "aarch64")
PYTHON = "cp311"
INDEX = "https://pypi.org/simple"
LINK = re.compile(r'href="([^"#]+)#sha256=([0-9a-f]{64})"')


def pinned() -> dict[str, str]:
    """The versions of constraints.txt by name."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if "==" in line and not line.startswith("#")]
    return {canonicalize_name(name): version.split()[0] for name, version in pairs}


def needed(extras: str) -> set[str]:
    """Names of all packages that these extras of Runspine install on Linux, by what is installed here."""
    found: set[str] = set()
    waiting = [("runspine", extra) for extra in extras.split(",")]
    seen: set[tuple[str, str]] = set()
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        for requirement in _requirements(name, extra):
            below = canonicalize_name(requirement.name)
            found.add(below)
            waiting += [(below, each) for each in ("", *requirement.extras)]
    return found - {"runspine"} - FROM_ANOTHER_INDEX


def _requirements(name: str, extra: str) -> Iterable[Requirement]:
    try:
        lines = requires(name) or []
    except PackageNotFoundError as error:
        raise SystemExit(f"{name} is not installed here: run `make` in a checkout with all extras") from error
    for line in lines:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            yield requirement


def hashes(name: str, version: str, page: str) -> list[str]:
    """SHA-256 of the files of one version that an image may install; of its source if there is no wheel."""
    wheels, sources = [], []
    for url, digest in LINK.findall(html.unescape(page)):
        file = url.rpartition("/")[2]
        if file.endswith(".whl") and str(_wheel_version(file)) == version and _fits(file):
            wheels.append(digest)
        elif file.endswith(".tar.gz") and _source_version(file) == version:
            sources.append(digest)
    return sorted(wheels or sources)


def _wheel_version(file: str) -> str:
    return str(parse_wheel_filename(file)[1])


def _source_version(file: str) -> str:
    try:
        return str(parse_sdist_filename(file)[1])
    except ValueError:
        return ""


def _fits(file: str) -> bool:
    """Whether a wheel is for the images' Python on Linux."""
    for tag in parse_wheel_filename(file)[3]:
        older = tag.abi == "abi3" and int(tag.interpreter.removeprefix("cp3") or 0) <= 11
        right = tag.interpreter == PYTHON and tag.abi in (PYTHON, "none")
        if older or right or tag.interpreter == "py3":
            linux = tag.platform.startswith("manylinux") and tag.platform.endswith(MACHINES)
            if tag.platform == "any" or linux:
                return True
    return False


def fetch_page(name: str) -> str:
    index = os.environ.get("PIP_INDEX_URL") or INDEX
    with urllib.request.urlopen(f"{index.rstrip('/')}/{name}/", timeout=60) as answer:
        return str(answer.read().decode())


def main() -> int:
    versions, missing = pinned(), []
    FOLDER.mkdir(exist_ok=True)
    known: dict[str, list[str]] = {}
    for image, extras in IMAGES.items():
        lines = [f"# What the image `{image}` installs: written by `python -m tests.tools.requirements`."]
        for name in sorted({*needed(extras), *BUILD}):
            if name not in known:
                known[name] = hashes(name, versions[name], fetch_page(name))
            if not known[name]:
                missing.append(f"{name}=={versions[name]}")
            digests = "".join(f" \\\n    --hash=sha256:{digest}" for digest in known[name])
            lines.append(f"{name}=={versions[name]}{digests}")
        (FOLDER / f"{image}.txt").write_text("\n".join(lines) + "\n")
        print(f"{image}: {len(lines) - 1} packages")
    if missing:
        print(f"the index has no file of {', '.join(missing)}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())

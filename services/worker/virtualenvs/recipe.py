"""What a virtualenv is made from, and its key: the same key is the same virtualenv. Pure."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import urlsplit

from runspine.wire.v1.spec_pb2 import Packages

FORMAT = 1
LOCK, REQUIREMENTS = "uv.lock", "requirements.txt"
# What uv prints when a package has no wheel for this platform.
NO_WHEEL = "building from source is disabled"
NO_TORCH = "none"


@dataclass(frozen=True, slots=True)
class PythonFound:
    """An interpreter on this host."""

    path: str
    # Such as "CPython 3.12.3".
    version: str


@dataclass(frozen=True, slots=True)
class PackageSources:
    """Where packages come from, by the settings of the worker."""

    indexes: tuple[str, ...] = ()
    # Folders with wheels.
    wheels: tuple[str, ...] = ()
    offline: bool = False
    # Index of torch: an address, none for the same as the others', or that of PyTorch when empty.
    torch: str = ""
    # Whether the worker has GPUs, and with which driver.
    gpu_driver: str = ""
    gpus: bool = False

    @property
    def torch_arguments(self) -> tuple[str, ...]:
        """Arguments by which uv takes torch for this platform; none when it comes with all else."""
        if self.offline or self.torch == NO_TORCH:
            return ()
        if self.torch:
            return ("--index", self.torch)
        if self.indexes:
            return ()
        return ("--torch-backend", "auto" if self.gpus else "cpu")

    @property
    def arguments(self) -> tuple[str, ...]:
        """Arguments of uv that name indexes and folders."""
        words = [word for folder in self.wheels for word in ("--find-links", folder)]
        if self.offline:
            return ("--no-index", *words)
        for place, address in enumerate(self.indexes):
            words += ["--default-index" if place == 0 else "--index", address]
        return tuple(words)

    @property
    def has_credentials(self) -> bool:
        """Whether an address has a user name or password, which no build from source may see."""
        return any("@" in urlsplit(address).netloc for address in (*self.indexes, self.torch))

    @property
    def local_folders(self) -> tuple[str, ...]:
        """Folders of this host that uv reads."""
        addresses = (urlsplit(address) for address in (*self.indexes, self.torch))
        return (*self.wheels, *(each.path for each in addresses if each.scheme == "file"))


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a virtualenv is made from."""

    tree: str
    extras: tuple[str, ...]
    groups: tuple[str, ...]
    python: PythonFound
    # Machine and C library.
    platform: str
    torch: tuple[str, ...]
    # Part of the key where another driver makes uv choose another torch.
    driver: str

    @property
    def key(self) -> str:
        parts = [FORMAT, self.tree, self.extras, self.groups, self.python.version, self.platform]
        text = json.dumps([*parts, self.torch, self.driver if "auto" in self.torch else ""])
        return hashlib.sha256(text.encode()).hexdigest()


def make_recipe(packages: Packages, python: PythonFound, platform: str, sources: PackageSources) -> Recipe:
    extras, groups = tuple(sorted(packages.extras)), tuple(sorted(packages.groups))
    torch, driver = sources.torch_arguments, sources.gpu_driver
    return Recipe(packages.tree, extras, groups, python, platform, torch, driver)


def create_words(python: str, folder: str) -> list[str]:
    """Arguments of uv that make an empty virtualenv, which can be moved."""
    return ["venv", "--quiet", "--no-config", "--offline", "--relocatable", "--python", python, folder]


def export_words(recipe: Recipe, project: str, out: str) -> list[str]:
    """Arguments of uv that write a lock as requirements with digests; nothing is resolved again."""
    chosen = [f"--extra={extra}" for extra in recipe.extras] + [f"--group={group}" for group in recipe.groups]
    kept = ["--frozen", "--no-dev", "--no-emit-project", "--no-header", "--no-annotate", *chosen]
    where = ["--project", project, "--python", recipe.python.path, "--output-file", out]
    return ["export", "--quiet", "--no-config", "--offline", *kept, *where]


def install_words(
    recipe: Recipe, sources: PackageSources, python: str, listed: str, *, wheels: bool
) -> list[str]:
    """Arguments of uv that install what a file of requirements lists."""
    only = ["--no-build"] if wheels else []
    return [
        *("pip", "install", "--no-config", "--no-progress", "--link-mode", "copy", *only),
        *("--python", python, "--requirements", listed),
        *sources.arguments,
        *recipe.torch,
    ]


def failure_words(output: str, hidden: Iterable[tuple[str, str]]) -> str:
    """What uv printed about a failure, from its first error on, with texts replaced."""
    for text, shown in hidden:
        output = output.replace(text, shown)
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    first = next((place for place, line in enumerate(lines) if line.lstrip().startswith("error")), 0)
    return "\n".join(lines[first:])[:MAX_FAILURE] or "uv ended without a message"


MAX_FAILURE = 1500

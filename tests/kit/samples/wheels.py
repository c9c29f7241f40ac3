"""Packages for tests without a network: wheels, and an archive of sources, written by hand."""

from __future__ import annotations

import base64
import hashlib
import io
import tarfile
import zipfile
from importlib.metadata import distribution
from pathlib import Path

TAG = "py3-none-any"


def write_wheel(folder: Path, name: str, version: str, modules: dict[str, str], scripts: str = "") -> Path:
    """A wheel of pure Python; `scripts` are lines of console_scripts."""
    info = f"{name}-{version}.dist-info"
    files = {path: text.encode() for path, text in modules.items()}
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode()
    files[f"{info}/WHEEL"] = f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {TAG}\n".encode()
    if scripts:
        files[f"{info}/entry_points.txt"] = f"[console_scripts]\n{scripts}\n".encode()
    return _pack(folder / f"{name}-{version}-{TAG}.whl", files, info)


def repack_wheel(folder: Path, name: str) -> Path:
    """The wheel that an installed package came from, native modules included."""
    found = distribution(name)
    tag = next(
        line.partition(":")[2].strip()
        for line in str(found.read_text("WHEEL")).splitlines()
        if line.startswith("Tag")
    )
    info = f"{name}-{found.version}.dist-info"
    files = {
        str(each): Path(str(each.locate())).read_bytes()
        for each in found.files or ()
        if ".." not in each.parts and not str(each).endswith((".pyc", "RECORD", "INSTALLER", "REQUESTED"))
    }
    return _pack(folder / f"{name}-{found.version}-{tag}.whl", files, info)


def write_source(folder: Path, name: str, version: str, backend: str, modules: dict[str, str]) -> Path:
    """An archive of sources with a build backend of its own, which needs no other package."""
    root = f"{name}-{version}"
    system = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    project = f'{system}[project]\nname = "{name}"\nversion = "{version}"\n'
    files = {"pyproject.toml": project, "backend.py": backend, **modules}
    files["PKG-INFO"] = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    path = folder / f"{root}.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for inside, text in files.items():
            entry = tarfile.TarInfo(f"{root}/{inside}")
            entry.size = len(text.encode())
            archive.addfile(entry, io.BytesIO(text.encode()))
    return path


def _pack(path: Path, files: dict[str, bytes], info: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{inside},{_hash(data)},{len(data)}" for inside, data in files.items()]
    record = "\n".join([*lines, f"{info}/RECORD,,"]) + "\n"
    with zipfile.ZipFile(path, "w") as archive:
        for inside, data in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(inside, data)
    return path


def _hash(data: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()

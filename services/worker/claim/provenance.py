"""What an attempt runs with: interpreter, packages, system, hardware, and switches of determinism."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from runspine import __version__
from runspine.domain.defaults import DEFAULT_SEED
from runspine.services.worker.claim.capacity import CapacityShare
from runspine.services.worker.process.environment import THREAD_VARIABLES
from runspine.services.worker.process.gpu import driver_version
from runspine.services.worker.virtualenvs.cache import Virtualenv
from runspine.storage.blobs import Blobs, BlobsUnavailableError
from runspine.storage.keys import packages_key
from runspine.wire.v1.facts_pb2 import Capacity, Provenance
from runspine.wire.v1.spec_pb2 import RunSpec

log = structlog.get_logger()

PROBE_SECONDS = 20.0
MAX_TEXT = 200
# Decide whether the same program gives the same numbers again.
SWITCHES = (*THREAD_VARIABLES, "PYTHONHASHSEED", "CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING",
            "TF_DETERMINISTIC_OPS", "TORCH_DETERMINISTIC", "MKL_CBWR", "OMP_SCHEDULE")  # fmt: skip
IMAGE = "RUNSPINE_IMAGE"
# Run by the interpreter itself; -I keeps the current folder and its own variables out.
_PROBE = """
import json, platform, sys
from importlib.metadata import distributions
found = {(d.metadata["Name"] or "").lower().replace("_", "-"): d.version for d in distributions()}
packages = sorted(f"{name}=={version}" for name, version in found.items() if name)
folders = [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
version = f"{platform.python_implementation()} {platform.python_version()}"
print(json.dumps({"version": version, "packages": packages, "folders": folders}))
"""


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter with the list of its packages."""

    version: str = ""
    packages: bytes = b""
    # Folders of packages with their modification times: they change with an installation.
    stamps: tuple[tuple[str, int], ...] = ()

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.packages).hexdigest() if self.packages else ""


class ProvenanceReader:
    """Describes attempts. Interpreters are asked once, and again after something was installed."""

    def __init__(self, blobs: Blobs, capacity: Capacity, worker_dir: Path) -> None:
        self._blobs = blobs
        self._capacity = capacity
        self._worker_dir = worker_dir.resolve()
        self._interpreters: dict[str, Interpreter] = {}
        self._stored: set[str] = set()
        self._system = _system()
        self._cpu = _cpu()
        self._driver = driver_version()

    async def describe(
        self,
        spec: RunSpec,
        command: Sequence[str],
        environment: Mapping[str, str],
        share: CapacityShare,
        virtualenv: Virtualenv | None = None,
    ) -> Provenance:
        """The provenance of an attempt with this command. Never raises for what cannot be read."""
        path = self._interpreter_path(command)
        if virtualenv is not None and (not path or Path(path).is_relative_to(virtualenv.folder)):
            # Known since it was built: it is not asked, because packages of the run would answer.
            path, python = virtualenv.program, Interpreter(virtualenv.python, virtualenv.packages)
        else:
            python = await asyncio.to_thread(self._interpreter, path) if path else Interpreter()
        await self._store(python)
        switches = {name: environment[name][:MAX_TEXT] for name in SWITCHES if environment.get(name)}
        seed = spec.seed if spec.HasField("seed") else DEFAULT_SEED
        return Provenance(
            python=python.version,
            python_path=path,
            system=self._system,
            machine=platform.machine(),
            cpu=self._cpu,
            cpus=self._capacity.cpus,
            memory_mib=self._capacity.memory_mib,
            gpus=[gpu for gpu in self._capacity.gpus if gpu.split(" ")[0] in share.gpus],
            gpu_driver=self._driver,
            packages=python.digest,
            package_count=python.packages.count(b"\n"),
            image=os.environ.get(IMAGE, "")[:MAX_TEXT],
            determinism={"seed": str(seed), **switches},
            runspine=__version__,
            virtualenv=virtualenv.key if virtualenv is not None else "",
        )

    async def warm(self, pythons: Sequence[str]) -> None:
        """Ask interpreters before the first attempt, which then need not wait for it."""
        for path in dict.fromkeys(pythons):
            await self._store(await asyncio.to_thread(self._interpreter, path))

    def _interpreter_path(self, command: Sequence[str]) -> str:
        """The interpreter of a command; empty when it is another program.

        One that came with the run's code is not asked: it would run outside the trainer's limits.
        """
        path = command[0] if command else ""
        if not os.path.isabs(path) or not os.path.basename(path).startswith("python"):
            return ""
        return "" if Path(os.path.realpath(path)).is_relative_to(self._worker_dir / "runs") else path

    def _interpreter(self, path: str) -> Interpreter:
        known = self._interpreters.get(path)
        if known is None or known.stamps != _stamps([folder for folder, _ in known.stamps]):
            known = self._interpreters[path] = _probe(path)
        return known

    async def _store(self, python: Interpreter) -> None:
        """Store the list once; while S3 is unavailable a later attempt does it."""
        if not python.digest or python.digest in self._stored:
            return
        try:
            if await self._blobs.stat(packages_key(python.digest)) is None:
                await self._blobs.put(packages_key(python.digest), python.packages)
            self._stored.add(python.digest)
        except BlobsUnavailableError as error:
            log.info("packages.not_stored", error=str(error))


def _probe(path: str) -> Interpreter:
    """Ask an interpreter. Blocks."""
    try:
        done = subprocess.run(
            [path, "-I", "-c", _PROBE],
            check=True,
            capture_output=True,
            timeout=PROBE_SECONDS,
            env={"PATH": os.environ.get("PATH", ""), "HOME": "/nonexistent"},
        )
        found = json.loads(done.stdout)
        packages = "".join(f"{line}\n" for line in found["packages"]).encode()
        return Interpreter(str(found["version"])[:MAX_TEXT], packages, _stamps(found["folders"]))
    except (OSError, subprocess.SubprocessError, ValueError, KeyError, TypeError) as error:
        log.warning("interpreter.unreadable", path=path, error=str(error))
        return Interpreter()


def _stamps(folders: Sequence[str]) -> tuple[tuple[str, int], ...]:
    found = []
    for folder in folders:
        try:
            found.append((folder, os.stat(folder).st_mtime_ns))
        except OSError:
            found.append((folder, 0))
    return tuple(found)


def _system() -> str:
    try:
        name = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        name = sys.platform
    return f"{name}, {platform.system()} {platform.release()}"[:MAX_TEXT]


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor())[:MAX_TEXT]

"""Packages of runs: their virtualenv, found or built before the claim, held until the attempt has ended."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path

import runspine
from runspine.runners import NotReadyError
from runspine.services.worker.claim.code_cache import CodeCache
from runspine.services.worker.process.gpu import driver_version
from runspine.services.worker.process.sandbox import Sandbox
from runspine.services.worker.runners.interpreter import python_for
from runspine.services.worker.settings import WorkerSettings, split_list
from runspine.services.worker.virtualenvs.build import NotBuiltError, VirtualenvBuilder
from runspine.services.worker.virtualenvs.cache import Virtualenv, VirtualenvCache
from runspine.services.worker.virtualenvs.interpreters import find_python
from runspine.services.worker.virtualenvs.recipe import PackageSources
from runspine.tasks import cancel_and_wait
from runspine.wire.v1.spec_pb2 import Code, RunSpec

REPORT_SECONDS = 2.0
FOLDER = "virtualenvs"
SDK_FOLDER = ".sdk"
Report = Callable[[str], None]


class RunPackages:
    """Gives each attempt the virtualenv of its packages."""

    def __init__(self, settings: WorkerSettings, code: CodeCache, sandbox: Sandbox, *, gpus: bool) -> None:
        self._settings = settings
        self._code = code
        self._cache = VirtualenvCache(
            (settings.virtualenv_dir or settings.worker_dir / FOLDER).resolve(),
            VirtualenvBuilder(
                sandbox, _sources(settings, gpus=gpus), os.environ, settings.virtualenv_build_seconds
            ),
            int(settings.virtualenv_cache_mib * 2**20),
        )
        self._held: dict[str, Virtualenv] = {}

    async def get(self, name: str, spec: RunSpec, report: Report) -> Virtualenv:
        """The virtualenv for an entry, held until it is released. Raises NotBuiltError.

        Raises what the cache of code raises while its files cannot be fetched.
        """
        work = asyncio.create_task(self._get(spec, report), name=f"packages-{name}")
        try:
            while not work.done():
                report("its packages are being installed")
                await asyncio.wait({work}, timeout=REPORT_SECONDS)
        except asyncio.CancelledError:
            await cancel_and_wait(work)
            if not work.cancelled() and work.exception() is None:
                self._cache.release(work.result())
            raise
        self._held[name] = work.result()
        await self._cache.prune()
        return work.result()

    def release(self, name: str) -> None:
        """Let the virtualenv of an entry be evicted, if it has one."""
        if (virtualenv := self._held.pop(name, None)) is not None:
            self._cache.release(virtualenv)

    async def _get(self, spec: RunSpec, report: Report) -> Virtualenv:
        own = self._settings.runner_python
        try:
            given = python_for(spec.runner, own, os.environ) if spec.runner in own else sys.executable
            python = await asyncio.to_thread(find_python, spec.packages.python, given, os.environ)
        except NotReadyError as error:
            raise NotBuiltError(str(error)) from error

        async def fetch(folder: Path) -> Path:
            work, _ = await self._code.materialise(Code(tree=spec.packages.tree), folder, report)
            return work

        try:
            return await self._cache.get(
                spec.packages, python, fetch, network=spec.isolation.network != "none"
            )
        except OSError as error:
            raise NotBuiltError(f"this worker's disk cannot take it: {error}") from error


def _sources(settings: WorkerSettings, *, gpus: bool) -> PackageSources:
    return PackageSources(
        split_list(settings.package_indexes),
        split_list(settings.package_wheels),
        settings.package_offline,
        settings.torch_index,
        driver_version() if gpus else "",
        gpus,
    )


def packages_obstacle(spec: RunSpec, error: Exception) -> str:
    """The reason of a run whose packages cannot be installed."""
    return f"packages: {spec.packages.source or 'its packages'} cannot be installed: {error}"


def link_sdk(run_dir: Path, virtualenv: Virtualenv) -> str:
    """A folder with the worker's `runspine`, for programs that log; empty when the packages have it."""
    if b"\nrunspine==" in b"\n" + virtualenv.packages:
        return ""
    folder = run_dir / SDK_FOLDER
    folder.mkdir(exist_ok=True)
    link = folder / "runspine"
    link.unlink(missing_ok=True)
    link.symlink_to(Path(runspine.__file__).parent)
    return str(folder)


def program_variables(spec: RunSpec, virtualenv: Virtualenv | None) -> RunSpec:
    """The spec with the variables of an activated virtualenv; a PATH of its own comes after it."""
    if virtualenv is None:
        return spec
    changed = RunSpec()
    changed.CopyFrom(spec)
    path = spec.variables.get("PATH") or os.environ.get("PATH", "")
    changed.variables["PATH"] = os.pathsep.join((str(virtualenv.folder / "bin"), *([path] if path else ())))
    changed.variables["VIRTUAL_ENV"] = str(virtualenv.folder)
    # Shared by runs and verified before use: nothing is written next to its modules.
    changed.variables["PYTHONDONTWRITEBYTECODE"] = "1"
    return changed

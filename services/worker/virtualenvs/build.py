"""Builds a virtualenv with uv, in the sandbox of trainers: a package's build is a stranger's program.

Wheels are installed first, with a cache of downloads that all builds share and with the addresses of the
settings, for no program of a package runs then. When a package has no wheel, a second step builds it: with a
cache of its own, so that it cannot change what other builds install, without credentials, and never without a
sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from runspine.services.worker.process.sandbox import Sandbox, make_scratch
from runspine.services.worker.process.sandbox_plan import OwnPaths, plan_sandbox, python_paths
from runspine.services.worker.process.trainer_process import REAPER_LOCK, NotStartedError, TrainerProcess
from runspine.services.worker.virtualenvs.recipe import (
    LOCK,
    NO_WHEEL,
    REQUIREMENTS,
    PackageSources,
    Recipe,
    create_words,
    export_words,
    failure_words,
    install_words,
)
from runspine.services.worker.virtualenvs.record import VENV
from runspine.services.worker.virtualenvs.torch_lines import without_platform
from runspine.wire.v1.spec_pb2 import Limits

MAX_OUTPUT = 256 << 10
MAX_PROCESSES = 4096
# Variables of the worker by which uv reaches an index.
PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
PASSED = ("PATH", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR")
_CREDENTIALS = re.compile(r"(://)[^/\s@]+@")


class NotBuiltError(Exception):
    """A virtualenv cannot be built; the message has the resolver's words."""


@dataclass(frozen=True, slots=True)
class BuildPlace:
    """The folder of one build, and the cache of downloads."""

    draft: Path
    # The files of the lock.
    files: Path
    # What is moved into the cache when it is whole.
    out: Path
    downloads: Path

    @property
    def python(self) -> str:
        return str(self.out / VENV / "bin" / "python")

    @property
    def own_downloads(self) -> Path:
        return self.draft / "downloads"


@dataclass(frozen=True, slots=True)
class VirtualenvBuilder:
    """Runs uv, a step after the other."""

    sandbox: Sandbox
    sources: PackageSources
    environment: Mapping[str, str]
    seconds: float

    async def build(self, recipe: Recipe, place: BuildPlace, *, network: bool) -> None:
        """Fill place.out/venv. Raises NotBuiltError.

        Without `network`, packages that are built from source have none.
        """
        try:
            async with asyncio.timeout(self.seconds):
                await self._build(recipe, place, network)
        except TimeoutError as error:
            raise NotBuiltError(
                f"it was not done after {self.seconds:g} s (RUNSPINE_VIRTUALENV_BUILD_SECONDS)"
            ) from error

    async def _build(self, recipe: Recipe, place: BuildPlace, network: bool) -> None:
        listed = place.files / REQUIREMENTS
        await self._must(recipe, place, create_words(recipe.python.path, str(place.out / VENV)))
        if (place.files / LOCK).is_file():
            listed = place.draft / REQUIREMENTS
            await self._must(recipe, place, export_words(recipe, str(place.files), str(listed)))
        if not listed.is_file():
            raise NotBuiltError(f"its files have neither {LOCK} nor {REQUIREMENTS}")
        if recipe.torch:
            await asyncio.to_thread(_adapt, [listed, *place.files.rglob("*.txt")])
        await self._install(recipe, place, str(listed), network)
        await self._compile(recipe, place)

    async def _install(self, recipe: Recipe, place: BuildPlace, listed: str, network: bool) -> None:
        words = install_words(recipe, self.sources, place.python, listed, wheels=True)
        code, output = await self._run(
            recipe, place, words, place.downloads, network=not self.sources.offline
        )
        if code == 0:
            return
        if NO_WHEEL not in output:
            raise NotBuiltError(self._words(output, place))
        if why := self._no_sources():
            raise NotBuiltError(f"{self._words(output, place)}\n{why}")
        words = install_words(recipe, self.sources, place.python, listed, wheels=False)
        allowed = network and not self.sources.offline and not self.sandbox.offline
        code, output = await self._run(
            recipe, place, words, place.own_downloads, network=allowed, foreign=True
        )
        if code != 0:
            raise NotBuiltError(self._words(output, place))

    def _no_sources(self) -> str:
        """Why nothing is built from source here; empty when it is."""
        if not self.sandbox:
            missing = self.sandbox.missing
            return f"This worker builds nothing from source, because it has no sandbox: {missing}. Use wheels"
        if self.sources.has_credentials:
            return (
                "This worker builds nothing from source, because the address of its index has credentials: "
                "use wheels, or RUNSPINE_PACKAGE_WHEELS"
            )
        return ""

    async def _compile(self, recipe: Recipe, place: BuildPlace) -> None:
        """Compile what was installed, by the Python it was made from: its own would run .pth files.

        A file that does not compile is the package's own matter.
        """
        words = ["-I", "-S", "-m", "compileall", "-q", "-j", "1", str(place.out / VENV / "lib")]
        await self._run(recipe, place, words, place.own_downloads, network=False, program=recipe.python.path)

    async def _must(self, recipe: Recipe, place: BuildPlace, words: list[str]) -> None:
        code, output = await self._run(recipe, place, words, place.own_downloads, network=False)
        if code != 0:
            raise NotBuiltError(self._words(output, place))

    async def _run(
        self,
        recipe: Recipe,
        place: BuildPlace,
        words: list[str],
        downloads: Path,
        *,
        network: bool,
        foreign: bool = False,
        program: str = "",
    ) -> tuple[int, str]:
        """Run uv, or another program; its exit code and the end of what it printed."""
        command = [program or _uv(), *words]
        if self.sandbox:
            command = await asyncio.to_thread(self._sandboxed, recipe, place, command, downloads, network)
        variables = self._variables(place, downloads, foreign)
        return await _finish(await self._start(command, place, variables))

    async def _start(
        self, command: list[str], place: BuildPlace, variables: dict[str, str]
    ) -> TrainerProcess:
        try:
            return await TrainerProcess.start(
                f"packages-{place.draft.name.strip('.')[-24:]}",
                command,
                place.draft,
                variables,
                place.draft / REAPER_LOCK,
                Limits(processes=MAX_PROCESSES),
                sandboxed=bool(self.sandbox),
            )
        except NotStartedError as error:
            raise NotBuiltError(f"{command[0]} could not be started: {error}") from error

    def _sandboxed(
        self, recipe: Recipe, place: BuildPlace, command: list[str], downloads: Path, network: bool
    ) -> list[str]:
        """The command in a sandbox in which only the build's own folders can be written to. Blocks."""
        make_scratch(place.draft)
        downloads.mkdir(parents=True, exist_ok=True, mode=0o700)
        reads = (*map(Path, self.sources.local_folders), *python_paths(recipe.python.path))
        own = OwnPaths(
            sockets=(downloads,),
            lock=place.draft / REAPER_LOCK,
            reads=tuple(path for path in reads if path.exists()),
        )
        policy = self.sandbox.policy
        plan = plan_sandbox(policy, place.draft, place.draft, command[0], own=own, network=network)
        return self.sandbox.command(plan, command)

    def _variables(self, place: BuildPlace, downloads: Path, foreign: bool) -> dict[str, str]:
        """An environment with nothing of the worker's own; for strangers no address with credentials."""
        given = {name: self.environment[name] for name in (*PASSED, *PROXIES) if self.environment.get(name)}
        if foreign:
            given = {name: text for name, text in given.items() if "@" not in urlsplit(text).netloc}
        scratch = "/tmp" if self.sandbox else str(place.draft / "tmp")
        return {
            **given,
            "HOME": scratch,
            "TMPDIR": scratch,
            "UV_CACHE_DIR": str(downloads),
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_KEYRING_PROVIDER": "disabled",
        }

    def _words(self, output: str, place: BuildPlace) -> str:
        shown = _CREDENTIALS.sub(r"\1", output)
        return failure_words(
            shown, ((f"{place.files}/", ""), (f"{place.draft}/", ""), (str(place.draft), "."))
        )


async def _finish(process: TrainerProcess) -> tuple[int, str]:
    """Wait for the end of a process, which does not outlive this call."""
    try:
        readers = (process.stdout, process.stderr, process.telemetry)
        outputs = await asyncio.gather(*(_tail(reader) for reader in readers))
        ended = await process.wait()
    except BaseException:
        process.kill()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(process.wait())
        raise
    finally:
        process.close()
    code = 1 if ended.signal or ended.unknown else ended.exit_code
    return code, (outputs[0] + outputs[1]).decode(errors="replace")


async def _tail(reader: asyncio.StreamReader) -> bytes:
    """The end of what a process writes."""
    kept = b""
    while data := await reader.read(1 << 16):
        kept = (kept + data)[-MAX_OUTPUT:]
    return kept


def _adapt(paths: list[Path]) -> None:
    for path in paths:
        if path.is_file() and not path.is_symlink():
            path.write_text(without_platform(path.read_text(errors="replace")))


def _uv() -> str:
    """The program of the package uv. Raises NotBuiltError."""
    try:
        from uv import find_uv_bin

        return os.fspath(find_uv_bin())
    except (ImportError, FileNotFoundError) as error:
        raise NotBuiltError(
            "uv is not installed next to this worker: install runspine[worker], or uv, there"
        ) from error

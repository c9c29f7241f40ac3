"""A Docker engine for a test: the one that runs, or one of our own when this machine lets us start it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path


class NoEngine(Exception):
    """Why there is no Docker engine here."""


class Engine:
    """Runs `docker` and `compose` against one engine."""

    def __init__(self, host: str) -> None:
        self.environment = {
            **os.environ,
            # The images are built without BuildKit's plugin where it is missing.
            "DOCKER_BUILDKIT": "1" if _has("docker", "buildx", "version") else "0",
            **({"DOCKER_HOST": host} if host else {}),
        }
        if _has("docker", "compose", "version"):
            self.compose_command = ["docker", "compose"]
        elif shutil.which("docker-compose"):
            self.compose_command = ["docker-compose"]
        else:
            raise NoEngine("neither `docker compose` nor docker-compose is installed")

    def docker(self, *arguments: str, timeout: float = 1800.0, check: bool = True, given: bytes = b"") -> str:
        return self.run(["docker", *arguments], timeout=timeout, check=check, given=given)

    def run(
        self,
        command: list[str],
        *,
        timeout: float = 1800.0,
        check: bool = True,
        given: bytes = b"",
        folder: Path | None = None,
        **variables: str,
    ) -> str:
        """What it printed. Raises AssertionError with that when it fails."""
        done = subprocess.run(
            command,
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=timeout,
            cwd=folder,
            env={**self.environment, **variables},
        )
        emitted = done.stdout.decode(errors="replace")
        assert not check or done.returncode == 0, f"{' '.join(command)}\n{emitted[-6000:]}"
        return emitted

    def has_image(self, name: str) -> bool:
        return "[]" not in self.docker("image", "inspect", name, check=False)[:2]


@contextlib.contextmanager
def engine(folder: Path) -> Iterator[Engine]:
    """The engine that answers, else a dockerd of our own in `folder`. Raises NoEngine."""
    if shutil.which("docker") is None:
        raise NoEngine("no docker command on this machine")
    if _answers(""):
        yield Engine("")
        return
    if shutil.which("dockerd") is None:
        raise NoEngine("no Docker engine answers, and there is no dockerd to start")
    if os.geteuid() != 0:
        raise NoEngine("no Docker engine answers, and only root may start one")
    with _own_engine(folder) as host:
        yield Engine(host)


@contextlib.contextmanager
def _own_engine(folder: Path) -> Iterator[str]:
    folder.mkdir(parents=True, exist_ok=True)
    host = f"unix://{folder}/docker.sock"
    with (folder / "dockerd.log").open("wb") as log:
        process = subprocess.Popen(
            [
                "dockerd",
                f"--data-root={folder / 'root'}",
                f"--exec-root={folder / 'exec'}",
                f"--pidfile={folder / 'pid'}",
                f"--host={host}",
            ],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        deadline = time.monotonic() + 90
        while not _answers(host):
            if process.poll() is not None or time.monotonic() > deadline:
                tail = (folder / "dockerd.log").read_text()[-500:]
                raise NoEngine(f"dockerd does not start here: {tail}")
            time.sleep(0.5)
        yield host
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)


def _answers(host: str) -> bool:
    environment = {**os.environ, **({"DOCKER_HOST": host} if host else {})}
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=15, env=environment)
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


def _has(*command: str) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0

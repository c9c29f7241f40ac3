"""The agent on a host that has joined: `python -m runspine.hosts.agent FOLDER`

It listens on loopback for its worker, dials out to the gateway for each connection, runs the worker, and
stops it when the host is drained or removed.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import fcntl
import json
import os
import signal
import ssl
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runspine.embedded.plan import needed_environment, trainer_environment
from runspine.hosts.register import ACTIVE, DRAINING, REVOKED, HostError
from runspine.hosts.wire import (
    CONTROL,
    NATS,
    S3,
    SILENT_SECONDS,
    RevokedError,
    bridge,
    client_context,
    dialled,
)
from runspine.tasks import cancel_and_wait

RETRY_SECONDS = (0.5, 1.0, 2.0, 5.0)
WORKER_RETRY_SECONDS = 3.0
WORKER_GRACE_SECONDS = 45.0
# The agent of a removed host ends with this; nothing starts it again.
REMOVED_CODE = 0


class HostAgent:
    """One host: its tunnel, its worker, and what the stack wants of it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        stored = json.loads((folder / "host.json").read_text())
        self._name: str = stored["name"]
        self._address: str = stored["address"]
        self._variables: dict[str, str] = stored["variables"]
        self._context = client_context(folder)
        self._state = ACTIVE
        self._changed = asyncio.Event()
        self._worker: asyncio.subprocess.Process | None = None

    async def run(self) -> None:
        """Return when the host was removed."""
        servers = {
            name: await asyncio.start_server(self._tunnel_to(name), "127.0.0.1", 0) for name in (NATS, S3)
        }
        ports = {name: server.sockets[0].getsockname()[1] for name, server in servers.items()}
        control = asyncio.create_task(self._follow_state())
        work = asyncio.create_task(self._run_worker(ports))
        try:
            await asyncio.wait({control, work}, return_when=asyncio.FIRST_COMPLETED)
            for task in (control, work):
                if task.done():
                    task.result()
        finally:
            await self._stop_worker()
            await cancel_and_wait(control, work)
            for server in servers.values():
                server.close()

    def _tunnel_to(self, name: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                async with dialled(self._address, self._context, {"to": name}) as (far, back, _):
                    await bridge((reader, writer), (far, back))
            except (OSError, ssl.SSLError, TimeoutError, HostError) as error:
                _log(f"{name}: {str(error) or type(error).__name__}")
            finally:
                writer.close()

        return carry

    async def _follow_state(self) -> None:
        """What the stack wants of this host; ends when it was removed. Silence changes nothing."""
        tries = 0
        while True:
            try:
                async with dialled(self._address, self._context, {"to": CONTROL}) as (reader, _, _):
                    tries = 0
                    while True:
                        async with asyncio.timeout(SILENT_SECONDS):
                            line = await reader.readline()
                        if not line:
                            break
                        self._become(str(json.loads(line)["state"]))
            except RevokedError:
                _log("this host was removed from the stack")
                self._become(REVOKED)
                return
            except (OSError, ssl.SSLError, TimeoutError, ValueError, HostError) as error:
                if tries == 0:
                    _log(f"the stack at {self._address} is away: {str(error) or type(error).__name__}")
            await asyncio.sleep(RETRY_SECONDS[min(tries, len(RETRY_SECONDS) - 1)])
            tries += 1

    def _become(self, state: str) -> None:
        if state == self._state:
            return
        _log(f"state: {state}")
        self._state = state
        self._changed.set()
        if state == DRAINING and self._worker is not None and self._worker.returncode is None:
            self._worker.terminate()

    async def _run_worker(self, ports: dict[str, int]) -> None:
        while True:
            if self._state == ACTIVE:
                self._worker = await self._start_worker(ports)
                _log(f"worker {self._worker.pid} started")
                code = await self._worker.wait()
                _log(f"the worker ended with {code}")
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(WORKER_RETRY_SECONDS):
                    await self._changed.wait()

    async def _start_worker(self, ports: dict[str, int]) -> asyncio.subprocess.Process:
        environment = {
            **needed_environment(os.environ),
            **trainer_environment(os.environ),
            "RUNSPINE_METRICS_ADDRESS": "127.0.0.1:0",
            **self._variables,
            "RUNSPINE_WORKER_ID": self._name,
            "RUNSPINE_WORKER_DIR": str(self._folder / "worker"),
            "RUNSPINE_SANDBOX_HIDDEN": str(self._folder),
            "RUNSPINE_NATS_URL": f"nats://127.0.0.1:{ports[NATS]}",
            "RUNSPINE_S3_ENDPOINT": f"127.0.0.1:{ports[S3]}",
        }
        tether = Path(__file__).parents[1] / "embedded" / "tether.py"
        command = [sys.executable, "-P", "-m", "runspine.services.worker"]
        with (self._folder / "worker.log").open("ab") as log:
            # The worker ends with this process, however that ends, and trainers with the worker.
            return await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", str(tether)),
                *(str(int(signal.SIGTERM)), str(os.getpid()), "0"),
                *command,
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    async def _stop_worker(self) -> None:
        if self._worker is None or self._worker.returncode is not None:
            return
        self._worker.terminate()
        try:
            async with asyncio.timeout(WORKER_GRACE_SECONDS):
                await self._worker.wait()
        except TimeoutError:
            self._worker.kill()
            await self._worker.wait()


def _log(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


async def _until_signal(agent: HostAgent) -> None:
    task = asyncio.ensure_future(agent.run())
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m runspine.hosts.agent")
    parser.add_argument("folder", type=Path)
    # Added by the watchdog that restarts this process.
    parser.add_argument("--watchdog", type=int, default=0)
    given = parser.parse_args()

    async def work() -> None:
        await _until_signal(HostAgent(given.folder))

    lock = os.open(given.folder / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _log("another agent runs for this host")
        return REMOVED_CODE
    asyncio.run(work())
    return REMOVED_CODE


if __name__ == "__main__":
    sys.exit(main())

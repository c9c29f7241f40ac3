"""Episodes for the scrubber: fetched once, played again and drawn in another process, kept as JPEG."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspine.client import Client
from runspine.endpoint import Endpoint
from runspine.errors import NotFound, RunspineError, Unreachable
from runspine.replay.finding import earlier_episodes, find_episode
from runspine.replay.record import Record
from services.dashboard.edges.backend import Backend

# Frames of one order; a person who scrubs wants the neighbours too.
CHUNK = 50
# Episodes whose frames are kept on disk.
KEPT = 40
PATIENCE = 120.0
PASSED_ON = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "MUJOCO_GL", "TMPDIR")


class NotDrawn(RunspineError):
    """The frame could not be drawn; the message says why."""


@dataclass(frozen=True, slots=True)
class Scene:
    record: Record
    folder: Path


class Theatre:
    """Plays whatever episode is asked for. Scenes are shared by everybody who may look."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self._backend = backend
        self._folder = folder
        self._scenes: OrderedDict[tuple[str, str], Scene] = OrderedDict()
        self._lock = asyncio.Lock()
        self._child: asyncio.subprocess.Process | None = None

    async def scene(self, token: str, run_id: str, which: str) -> Scene:
        """The record of an episode: an index, or best, worst, longest, shortest, first, last."""
        key = (run_id, which)
        if which.isdecimal() and key in self._scenes:
            self._scenes.move_to_end(key)
            return self._scenes[key]
        scene = await asyncio.to_thread(self._fetch, token, run_id, which)
        self._scenes[run_id, str(scene.record.said.entry.index)] = scene
        while len(self._scenes) > KEPT:
            _, old = self._scenes.popitem(last=False)
            await asyncio.to_thread(shutil.rmtree, old.folder, ignore_errors=True)
        return scene

    async def verdict(self, scene: Scene) -> dict[str, Any]:
        """Whether the replay is the original: exact, diverged, or stored when it cannot be played."""
        path = scene.folder / "verdict.json"
        if not path.exists():
            answer = await self._ask({"ask": "verdict", "folder": str(scene.folder)})
            await asyncio.to_thread(path.write_text, json.dumps(answer))
        found: dict[str, Any] = json.loads(await asyncio.to_thread(path.read_text))
        return found

    async def frame(self, scene: Scene, number: int) -> Path:
        """A file with the frame after the reset (0) or after a step (step + 1)."""
        if not 0 <= number <= scene.record.length:
            raise NotFound(f"frame {number} of an episode with {scene.record.length} steps")
        path = scene.folder / f"{number}.jpg"
        if not path.exists():
            first = number // CHUNK * CHUNK
            asked = {"ask": "frames", "folder": str(scene.folder), "first": first, "last": first + CHUNK}
            await self._ask(asked, unless=path)
        if not path.exists():
            raise NotDrawn(f"the replay ended before frame {number}")
        return path

    def _fetch(self, token: str, run_id: str, which: str) -> Scene:
        addresses = self._backend.addresses
        endpoint = Endpoint(addresses["trainer"], addresses["telemetry"], addresses["artifacts"], token)
        with Client(endpoint) as client:
            record = find_episode(client, run_id, which)
            before = earlier_episodes(client, run_id, record)
        data = record.said.SerializeToString(deterministic=True)
        folder = self._folder / hashlib.sha256(data).hexdigest()[:32]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "episode.pb").write_bytes(data)
        for number, earlier in enumerate(before):
            (folder / f"before-{number:04}.pb").write_bytes(earlier.said.SerializeToString())
        return Scene(record, folder)

    async def _ask(self, asked: dict[str, Any], unless: Path | None = None) -> dict[str, Any]:
        """One order at a time; a projector that hangs or dies is replaced by the next order."""
        async with self._lock:
            if unless is not None and await asyncio.to_thread(unless.exists):
                return {}  # somebody else wanted the same frames
            child = await self._projector()
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                async with asyncio.timeout(PATIENCE):
                    child.stdin.write(json.dumps(asked).encode() + b"\n")
                    await child.stdin.drain()
                    line = await child.stdout.readline()
            except TimeoutError as error:
                raise NotDrawn(f"the env did not come to an end within {PATIENCE:.0f} s") from error
            except ConnectionError as error:
                raise NotDrawn("the process that draws has ended; ask again") from error
            finally:
                if child.returncode is None and sys.exc_info()[0] is not None:
                    child.kill()
        if not line:
            raise NotDrawn("the env ended the process that draws it")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise NotDrawn(str(answer["error"]))
        return answer

    async def _projector(self) -> asyncio.subprocess.Process:
        if self._child is None or self._child.returncode is not None:
            try:
                self._child = await asyncio.create_subprocess_exec(
                    sys.executable, "-P", "-m", "services.dashboard.edges.projector",
                    stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                    # Nothing of ours: no token, no password.
                    env={name: os.environ[name] for name in PASSED_ON if name in os.environ},
                )  # fmt: skip
            except OSError as error:
                raise Unreachable(f"nothing can be drawn now: {error}") from error
        return self._child

    async def close(self) -> None:
        if self._child is not None and self._child.returncode is None:
            self._child.kill()
            await self._child.wait()

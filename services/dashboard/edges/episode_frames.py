"""Frames of recorded episodes: fetched once, replayed and rendered in a child process, cached as JPEG."""

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

from runspine.errors import RunNotFoundError, RunspineError, UnreachableError
from runspine.replay.episode_lookup import earlier_episodes, find_episode
from runspine.replay.record import EpisodeRecord
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from runspine.services.dashboard.edges.backend import Backend

# Frames per request to the renderer: a person who scrubs needs the neighbours, too.
FRAMES_PER_REQUEST = 50
# Episodes whose frames are kept on disk; the least recently used is removed.
MAX_EPISODES = 40
RENDER_TIMEOUT_SECONDS = 120.0
PASSED_VARIABLES = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "MUJOCO_GL", "TMPDIR")


class EpisodeFrameError(RunspineError):
    """A frame could not be rendered; the message holds the reason."""


@dataclass(frozen=True, slots=True)
class LoadedEpisode:
    record: EpisodeRecord
    folder: Path


class EpisodeFrames:
    """Loads episodes and renders their frames. Loaded episodes are shared by all visitors."""

    def __init__(self, backend: Backend, folder: Path) -> None:
        self._backend = backend
        self._folder = folder
        self._episodes: OrderedDict[tuple[str, str], LoadedEpisode] = OrderedDict()
        self._lock = asyncio.Lock()
        self._child: asyncio.subprocess.Process | None = None

    async def load(self, token: str, run_id: str, which: str) -> LoadedEpisode:
        """The record of an episode: an index, or best, worst, longest, shortest, first, last."""
        key = (run_id, which)
        if which.isdecimal() and key in self._episodes:
            self._episodes.move_to_end(key)
            return self._episodes[key]
        episode = await asyncio.to_thread(self._fetch, token, run_id, which)
        self._episodes[run_id, str(episode.record.response.entry.index)] = episode
        while len(self._episodes) > MAX_EPISODES:
            _, old = self._episodes.popitem(last=False)
            await asyncio.to_thread(shutil.rmtree, old.folder, ignore_errors=True)
        return episode

    async def verdict(self, episode: LoadedEpisode) -> dict[str, Any]:
        """Whether the replay equals the record: exact, diverged, or stored when it cannot be replayed."""
        path = episode.folder / "verdict.json"
        if not path.exists():
            answer = await self._request({"ask": "verdict", "folder": str(episode.folder)})
            await asyncio.to_thread(path.write_text, json.dumps(answer))
        found: dict[str, Any] = json.loads(await asyncio.to_thread(path.read_text))
        return found

    async def frame(self, episode: LoadedEpisode, number: int) -> Path:
        """The JPEG file of the frame after the reset (0) or after a step (step + 1)."""
        if not 0 <= number <= episode.record.length:
            raise RunNotFoundError(f"no frame {number} in an episode of {episode.record.length} steps")
        path = episode.folder / f"{number}.jpg"
        if not path.exists():
            first = number // FRAMES_PER_REQUEST * FRAMES_PER_REQUEST
            last = first + FRAMES_PER_REQUEST
            request = {"ask": "frames", "folder": str(episode.folder), "first": first, "last": last}
            await self._request(request, unless=path)
        if not path.exists():
            raise EpisodeFrameError(f"the replay ended before frame {number}")
        return path

    def _fetch(self, token: str, run_id: str, which: str) -> LoadedEpisode:
        addresses = self._backend.addresses
        endpoint = Endpoint(addresses["trainer"], addresses["telemetry"], addresses["artifacts"], token)
        with Client(endpoint) as client:
            record = find_episode(client, run_id, which)
            before = earlier_episodes(client, run_id, record)
        data = record.response.SerializeToString(deterministic=True)
        folder = self._folder / hashlib.sha256(data).hexdigest()[:32]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "episode.pb").write_bytes(data)
        for number, earlier in enumerate(before):
            (folder / f"before-{number:04}.pb").write_bytes(earlier.response.SerializeToString())
        return LoadedEpisode(record, folder)

    async def _request(self, request: dict[str, Any], unless: Path | None = None) -> dict[str, Any]:
        """Send one request at a time; a renderer that hung or died is replaced with the next request."""
        async with self._lock:
            if unless is not None and await asyncio.to_thread(unless.exists):
                return {}  # rendered meanwhile for another request
            child = await self._renderer()
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                async with asyncio.timeout(RENDER_TIMEOUT_SECONDS):
                    child.stdin.write(json.dumps(request).encode() + b"\n")
                    await child.stdin.drain()
                    line = await child.stdout.readline()
            except TimeoutError as error:
                message = f"the env did not finish within {RENDER_TIMEOUT_SECONDS:.0f} s"
                raise EpisodeFrameError(message) from error
            except ConnectionError as error:
                raise EpisodeFrameError("the renderer has ended; try again") from error
            finally:
                if child.returncode is None and sys.exc_info()[0] is not None:
                    child.kill()
        if not line:
            raise EpisodeFrameError("the env ended the renderer")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise EpisodeFrameError(str(answer["error"]))
        return answer

    async def _renderer(self) -> asyncio.subprocess.Process:
        if self._child is None or self._child.returncode is not None:
            try:
                self._child = await asyncio.create_subprocess_exec(
                    sys.executable, "-P", "-m", "runspine.services.dashboard.edges.episode_renderer",
                    stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
                    # No tokens or passwords of the dashboard.
                    env={name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ},
                )  # fmt: skip
            except OSError as error:
                raise UnreachableError(f"the renderer cannot be started: {error}") from error
        return self._child

    async def close(self) -> None:
        if self._child is not None and self._child.returncode is None:
            self._child.kill()
            await self._child.wait()

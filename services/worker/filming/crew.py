"""Who films: a thread that has one episode after another played again in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, Queue
from typing import Any, NamedTuple

import runspine

FILMER = "services.worker.filming.filmer"
# How long the end waits for clips that are due.
LONGEST = 300.0
# A trainer that ends episodes faster than they can be filmed leaves some out.
MOST_DUE = 8


class Take(NamedTuple):
    """An episode that has ended, as `snapshot` of its env tells it."""

    name: str
    episode: dict[str, Any]
    meta: dict[str, Any]
    step: int | None = None


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a trainer's standard output is its log


class Crew:
    """Never keeps whoever plays waiting, but for `finish`."""

    def __init__(
        self, run: runspine.Run, env_id: str, kwargs: dict[str, Any], frames: int, folder: Path
    ) -> None:
        self._run, self._env_id, self._kwargs = run, env_id, kwargs
        self._frames, self._folder = frames, folder
        self._due: Queue[Take | None] = Queue()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None

    def film(self, take: Take) -> None:
        """Have it filmed some time soon; the oldest that waits gives way when too many do."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        self._due.put(take)
        if self._due.qsize() > MOST_DUE:
            try:
                left_out = self._due.get_nowait()
            except Empty:
                return
            if left_out:
                say(f"no clip {left_out.name}: episodes end faster than they are filmed")

    def finish(self) -> None:
        """Wait for the clips that are due."""
        if self._thread is not None:
            self._due.put(None)
            self._thread.join(LONGEST)

    def drop(self) -> None:
        """Leave: what is not filmed stays so, and can be had from the recorded episode."""
        self._stopped = True
        if self._process and self._process.poll() is None:
            self._process.kill()

    def _work(self) -> None:
        while (take := self._due.get()) and not self._stopped:
            self._film(take)

    def _film(self, take: Take) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        target, job = self._folder / f"{take.name}.mp4", self._folder / f".{take.name}.json"
        about = {"env_id": self._env_id, "kwargs": self._kwargs, "frames": self._frames}
        job.write_text(json.dumps({**about, "episode": take.episode}))
        self._process = subprocess.Popen(
            [sys.executable, "-m", FILMER, str(job), str(target)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        out, problem = self._process.communicate()
        job.unlink(missing_ok=True)
        if self._stopped:
            return
        if self._process.returncode:
            last = (problem.strip().splitlines() or ["no reason given"])[-1]
            say(f"no clip {take.name}: {last}")
            return
        self._run.log_artifact(target, kind="video", step=take.step, **take.meta, **json.loads(out))

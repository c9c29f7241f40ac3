"""A thread that films one episode after another, each in a separate process."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from queue import Empty, Queue
from typing import Any, NamedTuple

import runspine
from runspine.domain.artifact_kinds import VIDEO
from runspine.trainers.output import echo

FILMER = "runspine.trainers.filming.filmer"
# How long `finish` waits for pending clips.
FINISH_SECONDS = 300.0
# When episodes end faster than they can be filmed, the oldest are left out.
MAX_DUE = 8


class FilmJob(NamedTuple):
    """An episode that has ended, as in the snapshot of its env."""

    name: str
    episode: dict[str, Any]
    meta: dict[str, Any]
    step: int | None = None


class FilmCrew:
    """Films in the background. Only `finish` waits."""

    def __init__(
        self, run: runspine.Run, env_id: str, kwargs: dict[str, Any], frames: int, folder: Path
    ) -> None:
        self._run, self._env_id, self._kwargs = run, env_id, kwargs
        self._frames, self._folder = frames, folder
        self._due: Queue[FilmJob | None] = Queue()
        self._process: subprocess.Popen[str] | None = None
        self._stopped = False
        self._thread: threading.Thread | None = None

    def film(self, take: FilmJob) -> None:
        """Queue an episode; with too many pending, the oldest is left out."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()
        self._due.put(take)
        if self._due.qsize() > MAX_DUE:
            try:
                left_out = self._due.get_nowait()
            except Empty:
                return
            if left_out:
                echo(f"no clip {left_out.name}: episodes end faster than they are filmed")

    def finish(self) -> None:
        """Wait for the pending clips."""
        if self._thread is not None:
            self._due.put(None)
            self._thread.join(FINISH_SECONDS)

    def drop(self) -> None:
        """Stop: pending clips are not made; they can be made later from the recorded episodes."""
        self._stopped = True
        if self._process and self._process.poll() is None:
            self._process.kill()

    def _work(self) -> None:
        while (take := self._due.get()) and not self._stopped:
            self._film(take)

    def _film(self, take: FilmJob) -> None:
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
            echo(f"no clip {take.name}: {last}")
            return
        self._run.log_artifact(target, kind=VIDEO, step=take.step, **take.meta, **json.loads(out))

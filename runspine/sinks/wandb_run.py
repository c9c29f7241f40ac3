"""Weights & Biases sink: an offline run, to be synced later, or an online one with --online.

Stored clips become media of the run under `media/videos/`.

Credentials are read only from WANDB_API_KEY and are not stored; wandb itself honours HTTPS_PROXY and
NO_PROXY.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runspine.errors import InvalidError, RunspineError
from runspine.sinks.clips import Clip
from runspine.sinks.columns import points_of
from runspine.sinks.draft import Draft
from runspine.sinks.ledger import read_state, write_state
from runspine.sinks.port import EPISODES, METRICS, VIDEOS, ExportedRun, Mark
from runspine.sinks.wandb_file import wait_for_rows

MICROSECOND = 1_000_000
STEP = "global_step"
MEDIA = "media/videos"
MAX_CAPTION = 256
# Called with the address of the run at W&B; with an empty one when it is offline.
ReportAddress = Callable[[str], None]
# Number of times each run was started in this process.
_STARTED: Counter[str] = Counter()


class WandbSink:
    """Writes history rows with the step of the run as `global_step` and the times of the trainer."""

    kinds = (METRICS, EPISODES, VIDEOS)

    def __init__(
        self,
        out: Path,
        exported: ExportedRun,
        *,
        online: bool = False,
        report: ReportAddress = lambda address: None,
    ) -> None:
        if online and not os.environ.get("WANDB_API_KEY"):
            raise InvalidError(
                "--online needs the variable WANDB_API_KEY; without --online nothing leaves the machine"
            )
        self._exported = exported
        self._online = online
        self._report = report
        self._draft = Draft(out, exported, "wandb", {"online": online})
        self._run: Any = None

    def open(self) -> Mark:
        mark = self._draft.open()
        if not mark.done:
            self._start()
        return mark

    def describe(self, parameters: Mapping[str, Any]) -> None:
        if self._run is not None:
            self._run.config.update(dict(parameters), allow_val_change=True)

    def feed(self, kind: str, batch: Any) -> None:
        rows = {METRICS: _metric_rows, EPISODES: _episode_rows, VIDEOS: _video_rows}[kind]
        for row in rows(batch):
            self._run.log(row)
            self._rows += 1

    def commit(self, mark: Mark) -> None:
        self._draft.mark = mark

    def supersede(self, step: int, mark: Mark) -> Mark:
        """Start a new history, because W&B cannot remove rows."""
        self._run.finish()
        self._draft.restart()
        self._start()
        return Mark()

    def close(self) -> str:
        if self._run is None:
            where = self._draft.previous_outputs()
            self._draft.close()
            return str(where[0])
        url = str(self._run.url) if self._online else ""
        made = Path(self._run.dir).parent
        self._run.finish()
        self._run = None
        if self._online:
            self._draft.record_done([self._draft.folder])
            self._draft.close()
            return url
        self._check(made)
        for earlier in self._draft.previous_outputs():
            self._draft.publish(earlier, self._draft.draft_folder / "earlier")
        place = self._draft.out / "wandb" / made.name
        self._draft.publish(made, place)
        self._draft.record_done([place])
        self._draft.close()
        self._report("")
        return str(place)

    def abandon(self) -> None:
        if self._run is not None:
            self._run.finish(exit_code=1)
        self._draft.close()

    def _check(self, made: Path) -> None:
        """Raise unless every logged row is in the file."""
        [path] = made.glob("*.wandb")
        found = wait_for_rows(path, self._rows)
        if found != self._rows:
            self._draft.close()
            raise RunspineError(f"wandb wrote {found:,} of {self._rows:,} rows to {path.name}; export again")

    def _start(self) -> None:
        self._rows = 0
        # Set before the import, which reads them, so that wandb does not use the network.
        os.environ["WANDB_MODE"] = "online" if self._online else "offline"
        if not self._online:
            os.environ["WANDB_ERROR_REPORTING"] = "false"
        import wandb

        settings = wandb.Settings(
            mode="online" if self._online else "offline",
            console="off",
            silent=True,
            disable_git=True,
            disable_code=True,
            x_disable_stats=True,
            x_disable_meta=True,
            x_disable_machine_info=True,
            x_save_requirements=False,
        )
        self._run = wandb.init(
            project=None if os.environ.get("WANDB_PROJECT") else self._exported.project or "runspine",
            name=self._exported.name,
            id=self._name(),
            group="__".join(part for part in (self._exported.env, self._exported.algo) if part) or None,
            config=dict(self._exported.spec_parameters),
            dir=str(self._draft.draft_folder),
            reinit="create_new",
            settings=settings,
        )
        self._run.define_metric(STEP, hidden=True)
        self._run.define_metric("*", step_metric=STEP)
        if self._online:
            self._report(str(self._run.url or ""))

    def _name(self) -> str:
        """The run id, with a number when it was used before.

        Online, because history cannot be removed. Offline within a process, because the process of
        wandb may still be closing the run of that name.
        """
        if not self._online:
            uses = _STARTED[self._exported.run_id] = _STARTED[self._exported.run_id] + 1
            return self._exported.run_id.lower() + (f"-{uses}" if uses > 1 else "")
        path = self._draft.folder / "tries.json"
        tries = int((read_state(path) or {"tries": 0})["tries"]) + 1
        write_state(path, {"tries": tries})
        return self._exported.run_id.lower() + (f"-{tries}" if tries > 1 else "")


def _metric_rows(batch: Any) -> list[dict[str, Any]]:
    """One row for each step; a name that occurs twice at a step makes two rows."""
    points = [(step, at, block.name, value) for block in batch.blocks for value, step, at in points_of(block)]
    rows: list[dict[str, Any]] = []
    for step, at, name, value in sorted(points, key=lambda point: point[:2]):
        if not rows or rows[-1][STEP] != step or name in rows[-1]:
            rows.append({STEP: step})
        rows[-1][name] = value
        rows[-1]["_timestamp"] = at / MICROSECOND
    return rows


def _episode_rows(batch: Any) -> list[dict[str, Any]]:
    return [
        {
            "episode/return": getattr(e, "return"),
            **({"episode/length": e.steps} if e.HasField("steps") else {}),
            STEP: e.global_step,
            "_timestamp": e.ended_at / MICROSECOND,
        }
        for e in batch.episodes
    ]


def _video_rows(clip: Clip) -> list[dict[str, Any]]:
    """One row with the clip as media; wandb copies its file."""
    import wandb

    which = clip.meta.get("which")
    key = f"{MEDIA}/{which if which in ('best', 'worst') else 'episode'}"
    # The format of a file is that of its name; wandb prints a warning when it is not given.
    video = wandb.Video(str(clip.path), caption=_caption(clip), format="mp4")
    return [{key: video, STEP: clip.step, "_timestamp": clip.at / MICROSECOND}]


def _caption(clip: Clip) -> str:
    known = [f"{name} {clip.meta[name]}" for name in ("episode_id", "return", "length") if name in clip.meta]
    return ", ".join([clip.name, *known])[:MAX_CAPTION]

"""A Weights & Biases run: offline, to be synced by whoever has an account, or online when asked.

Credentials come from WANDB_API_KEY alone and are written nowhere by us; proxies are those of the
environment (HTTPS_PROXY, NO_PROXY), which wandb honours itself.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspine.errors import Invalid, RunspineError
from runspine.sinks.columns import points_of
from runspine.sinks.draft import Draft
from runspine.sinks.ledger import read_state, write_state
from runspine.sinks.port import EPISODES, METRICS, Mark, Subject
from runspine.sinks.wandb_file import wait_for_rows

MICROSECOND = 1_000_000
STEP = "global_step"
# How often a run was begun in this process.
_STARTED: Counter[str] = Counter()


class WandbRun:
    """Rows of history with the run's own step, under `global_step`, and the trainer's wall times."""

    kinds = (METRICS, EPISODES)

    def __init__(self, out: Path, subject: Subject, *, online: bool = False) -> None:
        if online and not os.environ.get("WANDB_API_KEY"):
            raise Invalid(
                "--online needs the variable WANDB_API_KEY; without --online nothing leaves the machine"
            )
        self._subject = subject
        self._online = online
        self._draft = Draft(out, subject, "wandb", {"online": online})
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
        for row in _metric_rows(batch) if kind == METRICS else _episode_rows(batch):
            self._run.log(row)
            self._rows += 1

    def commit(self, mark: Mark) -> None:
        self._draft.mark = mark

    def supersede(self, step: int, mark: Mark) -> Mark:
        """Its history cannot be taken back: a new one is begun."""
        self._run.finish()
        self._draft.restart()
        self._start()
        return Mark()

    def close(self) -> str:
        if self._run is None:
            where = self._draft.earlier()
            self._draft.close()
            return str(where[0])
        url = str(self._run.url) if self._online else ""
        made = Path(self._run.dir).parent
        self._run.finish()
        self._run = None
        if self._online:
            self._draft.settle([self._draft.folder])
            self._draft.close()
            return url
        self._check(made)
        for earlier in self._draft.earlier():
            self._draft.place(earlier, self._draft.making / "earlier")
        place = self._draft.out / "wandb" / made.name
        self._draft.place(made, place)
        self._draft.settle([place])
        self._draft.close()
        return str(place)

    def abandon(self) -> None:
        if self._run is not None:
            self._run.finish(exit_code=1)
        self._draft.close()

    def _check(self, made: Path) -> None:
        """What was logged is in the file, or the export did not happen."""
        [path] = made.glob("*.wandb")
        found = wait_for_rows(path, self._rows)
        if found != self._rows:
            self._draft.close()
            raise RunspineError(f"wandb wrote {found:,} of {self._rows:,} rows to {path.name}; export again")

    def _start(self) -> None:
        self._rows = 0
        # Before the import, which reads them: so nothing of wandb's own asks the network.
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
            project=None if os.environ.get("WANDB_PROJECT") else self._subject.project or "runspine",
            name=self._subject.name,
            id=self._name(),
            group="__".join(part for part in (self._subject.env, self._subject.algo) if part) or None,
            config=dict(self._subject.asked),
            dir=str(self._draft.making),
            reinit="create_new",
            settings=settings,
        )
        self._run.define_metric(STEP, hidden=True)
        self._run.define_metric("*", step_metric=STEP)

    def _name(self) -> str:
        """The run's id, with a number when it was used before.

        Online, because history there is for good. Offline within a process, because wandb's own
        process may still be closing the run of that name and would close this one with it.
        """
        if not self._online:
            uses = _STARTED[self._subject.run_id] = _STARTED[self._subject.run_id] + 1
            return self._subject.run_id.lower() + (f"-{uses}" if uses > 1 else "")
        path = self._draft.folder / "tries.json"
        tries = int((read_state(path) or {"tries": 0})["tries"]) + 1
        write_state(path, {"tries": tries})
        return self._subject.run_id.lower() + (f"-{tries}" if tries > 1 else "")


def _metric_rows(batch: Any) -> list[dict[str, Any]]:
    """Points of one step side by side, in the order of the steps; a name twice at a step makes two rows."""
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
            "episode/length": e.steps,
            STEP: e.global_step,
            "_timestamp": e.ended_at / MICROSECOND,
        }
        for e in batch.episodes
    ]

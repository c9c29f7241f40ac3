"""CSV sink: metrics.csv, episodes.csv, optional steps.csv, and run.json with the parameters."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from runspine.sinks.columns import actions_of, observations_of, points_of, rewards_of, times_of
from runspine.sinks.ledger import ExportLedger, run_folder, write_state
from runspine.sinks.port import EPISODES, METRICS, STEPS, ExportedRun, Mark
from runspine.spec.plain import json_text

HEADINGS: dict[str, tuple[str, ...]] = {
    METRICS: ("attempt", "name", "step", "time", "value"),
    EPISODES: (
        "attempt",
        "episode_id",
        "slot",
        "agent_id",
        "steps",
        "return",
        "global_step",
        "ended",
        "terminated",
        "truncated",
    ),
    STEPS: (
        "attempt",
        "episode_id",
        "slot",
        "agent_id",
        "step",
        "time",
        "action",
        "reward",
        "terminated",
        "truncated",
        "observation",
    ),
}


class CsvFiles:
    """Writes CSV files. Numbers round-trip exactly; times are seconds since 1970."""

    def __init__(self, out: Path, exported: ExportedRun, *, with_steps: bool = False) -> None:
        self.folder = run_folder(out, exported)
        self.kinds: tuple[str, ...] = (METRICS, EPISODES, STEPS) if with_steps else (METRICS, EPISODES)
        self._exported = exported
        self._ledger = ExportLedger(self.folder, exported.run_id, "csv", {"steps": with_steps})

    def open(self) -> Mark:
        mark = self._ledger.open([f"{kind}.csv" for kind in self.kinds])
        if mark.is_start:
            self._begin()
        return mark

    def describe(self, parameters: Mapping[str, Any]) -> None:
        about = {"run_id": self._exported.run_id, "name": self._exported.name, "parameters": dict(parameters)}
        write_state(self.folder / "run.json", json.loads(json_text(about)))

    def feed(self, kind: str, batch: Any) -> None:
        self._write(kind, _ROWS[kind](batch))

    def commit(self, mark: Mark) -> None:
        self._ledger.commit(mark)

    def supersede(self, step: int, mark: Mark) -> Mark:
        self._ledger.restart()
        self._begin()
        return Mark()

    def close(self) -> str:
        self._ledger.close()
        return str(self.folder)

    def abandon(self) -> None:
        self._ledger.close()

    def _begin(self) -> None:
        for kind in self.kinds:
            if not self._ledger.file(f"{kind}.csv").tell():
                self._write(kind, [HEADINGS[kind]])

    def _write(self, kind: str, rows: Iterable[Sequence[Any]]) -> None:
        text = io.StringIO(newline="")
        csv.writer(text, lineterminator="\n").writerows(rows)
        # Names from a trainer may contain lone surrogates.
        self._ledger.file(f"{kind}.csv").write(text.getvalue().encode("utf-8", "backslashreplace"))


def _metrics(batch: Any) -> Iterable[Sequence[Any]]:
    for block in batch.blocks:
        for value, step, at in points_of(block):
            yield batch.attempt, block.name, step, seconds(at), repr(value)


def _episodes(batch: Any) -> Iterable[Sequence[Any]]:
    for e in batch.episodes:
        yield (
            batch.attempt,
            e.episode_id,
            e.slot,
            e.agent_id,
            e.steps if e.HasField("steps") else "",
            repr(getattr(e, "return")),
            e.global_step,
            seconds(e.ended_at),
            e.flags & 1,
            e.flags >> 1 & 1,
        )


def _steps(batch: Any) -> Iterable[Sequence[Any]]:
    for block in batch.blocks:
        columns = zip(
            times_of(block),
            actions_of(block),
            rewards_of(block),
            block.flags or bytes(block.count),
            observations_of(block),
            strict=True,
        )
        for n, (at, action, reward, flags, observation) in enumerate(columns):
            yield (
                batch.attempt,
                block.episode_id,
                block.slot,
                block.agent_id,
                block.first_step + n,
                seconds(at),
                plain(action),
                repr(reward),
                flags & 1,
                flags >> 1 & 1,
                plain(observation),
            )


_ROWS = {METRICS: _metrics, EPISODES: _episodes, STEPS: _steps}


def seconds(at: int) -> str:
    """Microseconds as decimal seconds, exactly."""
    return f"{at // 1_000_000}.{at % 1_000_000:06d}"


def plain(value: Any) -> str:
    """Text of a cell: numbers unchanged, None empty, anything else as JSON."""
    if value is None:
        return ""
    return (
        repr(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else json_text(value)
    )

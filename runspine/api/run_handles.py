"""Runs of the synchronous client: a run with what can be asked of it, and lists that are read lazily."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, overload

from runspine.api import frames
from runspine.api.cards import run_card, run_rows
from runspine.api.core import ApiCore
from runspine.api.fields import LogEntry, RunChange, RunFields, change_of, log_entries, summary_of
from runspine.api.files import StoredFile, stored_file
from runspine.api.frames import Shape, metric_names
from runspine.api.loop_thread import LoopThread
from runspine.errors import RunspineError
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.trainer_pb2 import GetResponse, ListRequest

if TYPE_CHECKING:
    from runspine.api.tables import Format

LISTED = 20
MAX_ROWS = 1_000_000


class RunHandle(RunFields):
    """A run, and what can be asked of it. Its fields are as of the last `refresh`. Raises RunspineError."""

    def __init__(self, thread: LoopThread, core: ApiCore, found: GetResponse | Run) -> None:
        self._thread = thread
        self._core = core
        self._take(found)

    def _take(self, found: GetResponse | Run) -> None:
        if isinstance(found, Run):
            super().__init__(found)
        else:
            super().__init__(found.run, found.attempts, found.progress)

    def refresh(self) -> RunHandle:
        """Read the run again."""
        self._take(self._thread.run(self._core.get(self.id)))
        return self

    def history(
        self,
        metrics: str | Sequence[str] | None = None,
        *,
        samples: int | None = None,
        times: bool = False,
        wide: bool = False,
        format: Format = "arrow",
    ) -> Any:
        """Points of metrics: every point, or about `samples` for each. A pyarrow Table by default.

        Columns: metric, step, value; `at` with `times`; `low` and `high` with `samples`. With `wide` there is
        one row for each step and one column for each metric.
        """
        shape = Shape(samples, times, wide, format)
        return self._thread.run(frames.history(self._core, self.id, metric_names(metrics), shape))

    @property
    def summary(self) -> dict[str, float]:
        """The last value of each series."""
        return summary_of(self._thread.run(self._core.series(self.id)))

    def episodes(self, *, format: Format = "arrow") -> Any:
        """Every episode that has ended, in order of time."""
        from runspine.api.tables import as_format, episodes_table

        return as_format(episodes_table(self._thread.iterate(self._core.episodes(self.id))), format)

    def steps(self, episode: int | str, *, attempt: int = 0, format: Format = "arrow") -> Any:
        """Every step of an episode, given by its index in the run or by its id."""
        from runspine.api.tables import as_format, steps_table

        found = self._thread.run(self._core.episode(self.id, episode, attempt))
        return as_format(steps_table(found.entry.attempt, found.blocks), format)

    @property
    def files(self) -> list[StoredFile]:
        """Checkpoints, videos and other files that are kept."""
        found = self._thread.run(self._core.files(self.id))
        return [stored_file(each, self._core.endpoint) for each in found]

    def logs(self, *, follow: bool = False) -> Iterator[LogEntry]:
        """Lines of the trainer's output; with `follow` until the run has ended."""
        for attempt, lines in self._thread.iterate(self._core.logs(self.id, follow)):
            yield from log_entries(attempt, lines)

    def sql(self, query: str, *, max_rows: int = MAX_ROWS, format: Format = "arrow") -> Any:
        """The result of a SELECT over its tables: steps, episodes, metrics, logs, envs, evaluations."""
        from runspine.api.tables import as_format, result_table

        found = self._thread.run(self._core.sql(self.id, [], query, max_rows))
        return as_format(result_table(found), format)

    def cancel(self, reason: str = "") -> RunHandle:
        self._take(self._thread.run(self._core.cancel(self.id, reason)))
        return self

    def label(self, labels: Mapping[str, str] | None = None, **more: str) -> RunHandle:
        """Set labels; an empty value removes one."""
        self._take(self._thread.run(self._core.label(self.id, {**(labels or {}), **more})))
        return self

    def wait(self, timeout: float | None = None) -> RunHandle:
        """Wait until the run has ended. Raises TimeoutError."""
        self._thread.run(self._core.wait(self.message, timeout))
        return self.refresh()

    def watch(self) -> Iterator[RunChange]:
        """Facts from the beginning, then changes as they happen, until the run has ended."""
        for message in self._thread.iterate(self._core.watch(self.id)):
            if message.HasField("run"):
                self._take(message.run)
            yield change_of(message, self.state)

    def _repr_html_(self) -> str:
        try:
            return run_card(self, *self._thread.run(frames.card_curve(self._core, self.id)))
        except RunspineError:
            return run_card(self)


class RunList(Sequence[RunHandle]):
    """Runs that match a filter, newest first. Pages are read as they are needed."""

    def __init__(self, thread: LoopThread, core: ApiCore, request: ListRequest) -> None:
        self._thread = thread
        self._core = core
        self._request = request
        self._runs: list[RunHandle] = []
        self._token: str | None = ""
        self._total = 0

    def _read_page(self) -> bool:
        """Whether there was another page."""
        if self._token is None:
            return False
        runs, token, self._total = self._thread.run(self._core.page(self._request, self._token))
        self._runs += [RunHandle(self._thread, self._core, run) for run in runs]
        self._token = token or None
        return True

    def __iter__(self) -> Iterator[RunHandle]:
        at = 0
        while at < len(self._runs) or self._read_page():
            while at < len(self._runs):
                yield self._runs[at]
                at += 1

    def __len__(self) -> int:
        """How many runs match, from the first page."""
        if not self._runs and self._token == "":
            self._read_page()
        return self._total if self._token else len(self._runs)

    @overload
    def __getitem__(self, index: int) -> RunHandle: ...
    @overload
    def __getitem__(self, index: slice) -> list[RunHandle]: ...
    def __getitem__(self, index: int | slice) -> RunHandle | list[RunHandle]:
        end = index.stop if isinstance(index, slice) else index + 1
        start = index.start if isinstance(index, slice) else index
        from_behind = end is None or end < 0 or (start or 0) < 0 or (isinstance(index, int) and index < 0)
        while (from_behind or len(self._runs) < end) and self._read_page():
            pass
        return self._runs[index]

    def __repr__(self) -> str:
        return f"<RunList of {len(self):,} runs>"

    def _repr_html_(self) -> str:
        return run_rows(islice(iter(self), LISTED), len(self))

"""`runspine.AsyncApi`: the same calls as `runspine.Api`, to be awaited."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from runspine.api import frames
from runspine.api.client import checked_runs
from runspine.api.connect import endpoint_of
from runspine.api.core import ApiCore
from runspine.api.fields import LogEntry, RunChange, RunFields, change_of, log_entries, summary_of
from runspine.api.files import StoredFile, stored_file
from runspine.api.filters import Moment, build_spec, invalid, list_request
from runspine.api.frames import Shape, metric_names
from runspine.api.loop_thread import LoopThread, loop_thread
from runspine.api.run_handles import MAX_ROWS
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import GetResponse

if TYPE_CHECKING:
    from runspine.api.tables import Format


class AsyncRunHandle(RunFields):
    """A run, and what can be asked of it, as `RunHandle`. Raises RunspineError."""

    def __init__(self, thread: LoopThread, core: ApiCore, found: GetResponse | Run) -> None:
        self._thread = thread
        self._core = core
        self._take(found)

    def _take(self, found: GetResponse | Run) -> None:
        if isinstance(found, Run):
            super().__init__(found)
        else:
            super().__init__(found.run, found.attempts, found.progress)

    async def refresh(self) -> AsyncRunHandle:
        self._take(await self._thread.wait(self._core.get(self.id)))
        return self

    async def history(
        self,
        metrics: str | Sequence[str] | None = None,
        *,
        samples: int | None = None,
        times: bool = False,
        wide: bool = False,
        format: Format = "arrow",
    ) -> Any:
        shape = Shape(samples, times, wide, format)
        return await self._thread.wait(frames.history(self._core, self.id, metric_names(metrics), shape))

    async def summary(self) -> dict[str, float]:
        return summary_of(await self._thread.wait(self._core.series(self.id)))

    async def episodes(self, *, format: Format = "arrow") -> Any:
        from runspine.api.tables import as_format, episodes_table

        async with aclosing(self._thread.aiterate(self._core.episodes(self.id))) as entries:
            return as_format(episodes_table([entry async for entry in entries]), format)

    async def steps(self, episode: int | str, *, attempt: int = 0, format: Format = "arrow") -> Any:
        from runspine.api.tables import as_format, steps_table

        found = await self._thread.wait(self._core.episode(self.id, episode, attempt))
        return as_format(steps_table(found.entry.attempt, found.blocks), format)

    async def files(self) -> list[StoredFile]:
        found = await self._thread.wait(self._core.files(self.id))
        return [stored_file(each, self._core.endpoint) for each in found]

    async def logs(self, *, follow: bool = False) -> AsyncIterator[LogEntry]:
        async with aclosing(self._thread.aiterate(self._core.logs(self.id, follow))) as found:
            async for attempt, lines in found:
                for entry in log_entries(attempt, lines):
                    yield entry

    async def sql(self, query: str, *, max_rows: int = MAX_ROWS, format: Format = "arrow") -> Any:
        """The result of a SELECT over its tables: steps, episodes, metrics, logs, envs, evaluations."""
        from runspine.api.tables import as_format, result_table

        found = await self._thread.wait(self._core.sql(self.id, [], query, max_rows))
        return as_format(result_table(found), format)

    async def cancel(self, reason: str = "") -> AsyncRunHandle:
        self._take(await self._thread.wait(self._core.cancel(self.id, reason)))
        return self

    async def label(self, labels: Mapping[str, str] | None = None, **more: str) -> AsyncRunHandle:
        self._take(await self._thread.wait(self._core.label(self.id, {**(labels or {}), **more})))
        return self

    async def wait(self, timeout: float | None = None) -> AsyncRunHandle:
        """Wait until the run has ended. Raises TimeoutError."""
        await self._thread.wait(self._core.wait(self.message, timeout))
        return await self.refresh()

    async def watch(self) -> AsyncIterator[RunChange]:
        async with aclosing(self._thread.aiterate(self._core.watch(self.id))) as messages:
            async for message in messages:
                if message.HasField("run"):
                    self._take(message.run)
                yield change_of(message, self.state)


class AsyncApi:
    """Calls of a stack from any event loop, as `Api`."""

    def __init__(
        self,
        address: str | None = None,
        token: str | None = None,
        *,
        telemetry_address: str | None = None,
        artifacts_address: str | None = None,
        home: str | os.PathLike[str] | None = None,
        tls: bool | str | None = None,
    ) -> None:
        endpoint = endpoint_of(address, token, telemetry_address, artifacts_address, home=home, tls=tls)
        self._core = ApiCore(endpoint)
        self._thread = loop_thread()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        await self._thread.wait(self._core.close())

    async def run(self, run: str) -> AsyncRunHandle:
        return AsyncRunHandle(self._thread, self._core, await self._thread.wait(self._core.get(run)))

    async def runs(
        self,
        *,
        state: str | Iterable[str] = (),
        env: str = "",
        algo: str = "",
        runner: str = "",
        project: str = "",
        owner: str = "",
        name: str = "",
        labels: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        page_size: int = 0,
    ) -> AsyncIterator[AsyncRunHandle]:
        """Runs that match all of these, newest first; the next page is read when it is needed."""
        plain = {
            "env": env, "algo": algo, "runner": runner, "project": project, "owner": owner, "name": name,
        }  # fmt: skip
        request = list_request(
            state=state, labels=labels, params=params, since=since, until=until, page_size=page_size, **plain
        )
        token: str | None = ""
        while token is not None:
            runs, following, _ = await self._thread.wait(self._core.page(request, token))
            for run in runs:
                yield AsyncRunHandle(self._thread, self._core, run)
            token = following or None

    async def frame(
        self,
        runs: Iterable[AsyncRunHandle | str],
        metrics: str | Sequence[str] | None = None,
        *,
        samples: int | None = None,
        times: bool = False,
        wide: bool = False,
        format: Format = "arrow",
    ) -> Any:
        shape = Shape(samples, times, wide, format)
        ids = await self._ids(runs)
        return await self._thread.wait(frames.frame(self._core, ids, metric_names(metrics), shape))

    async def sql(
        self,
        query: str,
        runs: Iterable[AsyncRunHandle | str] | None = None,
        *,
        max_rows: int = MAX_ROWS,
        format: Format = "arrow",
    ) -> Any:
        """The result of a SELECT over several runs, or over all, as `Api.sql`."""
        from runspine.api.tables import as_format, result_table

        chosen = [run async for run in self.runs(page_size=1000)] if runs is None else runs
        run_ids = await self._ids(chosen)
        if not run_ids:
            raise invalid("runs", "there is no run to query")
        found = await self._thread.wait(self._core.sql("", run_ids, query, max_rows))
        return as_format(result_table(found), format)

    async def _ids(self, runs: Iterable[AsyncRunHandle | str]) -> list[str]:
        return [
            each.id if isinstance(each, RunFields) else (await self.run(each)).id
            for each in checked_runs(runs)
        ]

    async def submit(
        self, spec: RunSpec | Mapping[str, Any] | None = None, *, key: str = "", **fields: Any
    ) -> AsyncRunHandle:
        built = build_spec(spec, fields)
        found = await self._thread.wait(self._core.submit(built, key))
        return AsyncRunHandle(self._thread, self._core, found)

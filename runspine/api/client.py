"""`runspine.Api`: runs and their data for Python programs and notebooks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from runspine.api import frames
from runspine.api.connect import endpoint_of
from runspine.api.core import ApiCore
from runspine.api.fields import RunFields
from runspine.api.filters import Moment, build_spec, invalid, list_request
from runspine.api.frames import Shape, metric_names
from runspine.api.loop_thread import loop_thread
from runspine.api.run_handles import MAX_ROWS, RunHandle, RunList
from runspine.wire.v1.spec_pb2 import RunSpec

if TYPE_CHECKING:
    from runspine.api.tables import Format


class Api:
    """Calls of a stack. Works with or without a running event loop, and from several threads.

    Address and token come from the arguments, else from RUNSPINE_ADDRESS and RUNSPINE_TOKEN, else from the
    stack in RUNSPINE_HOME. Raises RunspineError; InvalidError names the field in its `violations`.
    """

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

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._thread.run(self._core.close())

    def run(self, run: str) -> RunHandle:
        """A run by its id, a unique beginning of it, or its name."""
        return RunHandle(self._thread, self._core, self._thread.run(self._core.get(run)))

    def runs(
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
    ) -> RunList:
        """Runs that match all of these, newest first, read page by page as they are needed."""
        plain = {
            "env": env, "algo": algo, "runner": runner, "project": project, "owner": owner, "name": name,
        }  # fmt: skip
        request = list_request(
            state=state, labels=labels, params=params, since=since, until=until, page_size=page_size, **plain
        )
        return RunList(self._thread, self._core, request)

    def frame(
        self,
        runs: Iterable[RunHandle | str],
        metrics: str | Sequence[str] | None = None,
        *,
        samples: int | None = None,
        times: bool = False,
        wide: bool = False,
        format: Format = "arrow",
    ) -> Any:
        """Points of several runs in one table: a column `run`, and those of `RunHandle.history`."""
        shape = Shape(samples, times, wide, format)
        names = metric_names(metrics)
        return self._thread.run(frames.frame(self._core, self._ids(runs), names, shape))

    def sql(
        self,
        query: str,
        runs: Iterable[RunHandle | str] | None = None,
        *,
        max_rows: int = MAX_ROWS,
        format: Format = "arrow",
    ) -> Any:
        """The result of a SELECT over the tables of several runs, or of all: runs, params, labels, artifacts,
        metrics, episodes, logs, evaluations, each with a column run_id."""
        from runspine.api.tables import as_format, result_table

        run_ids = self._ids(self.runs(page_size=1000) if runs is None else runs)
        if not run_ids:
            raise invalid("runs", "there is no run to query")
        found = self._thread.run(self._core.sql("", run_ids, query, max_rows))
        return as_format(result_table(found), format)

    def submit(
        self, spec: RunSpec | Mapping[str, Any] | None = None, *, key: str = "", **fields: Any
    ) -> RunHandle:
        """Submit a run: `spec` and `fields` are as in a run file. The same key gives the same run again."""
        built = build_spec(spec, fields)
        return RunHandle(self._thread, self._core, self._thread.run(self._core.submit(built, key)))

    def _ids(self, runs: Iterable[RunHandle | str]) -> list[str]:
        return [each.id if isinstance(each, RunFields) else self.run(each).id for each in checked_runs(runs)]


def checked_runs(runs: Any) -> list[Any]:
    """Runs given by handle, id or name. Raises InvalidError."""
    if isinstance(runs, str | RunFields):
        return [runs]
    found = list(runs)
    for each in found:
        if not isinstance(each, str | RunFields):
            raise invalid("runs", f"expected runs, their ids or names, got {each!r:.60}")
    return found

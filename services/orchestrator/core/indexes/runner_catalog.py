"""Runners of the fleet, merged from what each worker reports. Pure.

Workers of one version report the same: each distinct report is kept once, and merged only after a change.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from runspine.wire.v1.run_pb2 import Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo


@dataclass(slots=True)
class _Reports:
    """Reports of one runner, with how many workers make each: all, and those online and ready."""

    all: Counter[bytes] = field(default_factory=Counter)
    ready: Counter[bytes] = field(default_factory=Counter)


class RunnerCatalog:
    """What the known workers report of their runners."""

    def __init__(self) -> None:
        self._infos: dict[bytes, RunnerInfo] = {}
        self._names: dict[bytes, str] = {}
        self._runners: dict[str, _Reports] = {}
        # By worker: each report, and whether it counts as ready.
        self._of: dict[str, list[tuple[bytes, bool]]] = {}
        self._merged: dict[str, RunnerInfo] = {}

    def update(self, worker: Worker) -> None:
        """A worker came online, went offline or reports other runners."""
        before = self._of.get(worker.id, [])
        after = []
        for info in worker.runners:
            data = info.SerializeToString(deterministic=True)
            if data not in self._infos:
                kept = self._infos[data] = RunnerInfo()
                kept.CopyFrom(info)
                self._names[data] = info.name
            after.append((data, worker.online and not info.not_ready))
        self._of[worker.id] = after
        for data, ready in after:
            self._count(data, ready, 1)
        for data, ready in before:
            self._count(data, ready, -1)

    def known(self, installed: Mapping[str, RunnerInfo]) -> dict[str, RunnerInfo]:
        """Every known runner by name: as online workers with the runner ready report it, else as installed,
        else as any worker reports it."""
        names = dict.fromkeys((*installed, *self._runners))
        return {name: self._known(name, installed) for name in names}

    def _known(self, name: str, installed: Mapping[str, RunnerInfo]) -> RunnerInfo:
        reports = self._runners.get(name)
        if reports is None or (name in installed and not reports.ready):
            return _without_envs(installed[name])
        if name not in self._merged:
            self._merged[name] = self._merge(reports)
        return self._merged[name]

    def _merge(self, reports: _Reports) -> RunnerInfo:
        """The report of most workers, with the envs of all ready ones; without any when one reports none."""
        counts = reports.ready or reports.all
        info = self._infos[max(counts, key=lambda data: (counts[data], data))]
        if not info.open_envs:
            return info  # its list of envs is the same on every worker
        merged = _without_envs(info)
        ready = [self._infos[data] for data in reports.ready]
        if ready and all(each.envs for each in ready):
            merged.envs.extend(sorted({env for each in ready for env in each.envs}))
        return merged

    def _count(self, data: bytes, ready: bool, change: int) -> None:
        name = self._names[data]
        reports = self._runners.setdefault(name, _Reports())
        for counts in (reports.all, reports.ready) if ready else (reports.all,):
            counts[data] += change
            if not counts[data]:
                del counts[data]
        self._merged.pop(name, None)
        if data not in reports.all:
            del self._infos[data], self._names[data]
            if not reports.all:
                del self._runners[name]


def _without_envs(info: RunnerInfo) -> RunnerInfo:
    """The runner as it is without workers: a list of envs that depends on them is left out."""
    if not info.open_envs or not info.envs:
        return info
    bare = RunnerInfo()
    bare.CopyFrom(info)
    del bare.envs[:]
    return bare

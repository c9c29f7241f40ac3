"""Removes directories of ended runs by the worker's rules, once everything of the run is stored elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import structlog

from runspine.clock import now_micros
from runspine.domain.run import ENDED, fold
from runspine.eventlog import CorruptError
from runspine.eventlog.subjects import attempts_subject, run_subject, worker_subject
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.facts.outcome import attempts_of
from runspine.services.worker.machine.removal_plan import EndedFolder, KeepRules, planned_removals
from runspine.services.worker.machine.run_folders import Removal, RunFolders
from runspine.wire.v1.facts_pb2 import Fact, FoldersRemoved, RemovedFolder

log = structlog.get_logger()

# Runs whose histories are read in one round; the next round continues with others.
MAX_READ = 100


class FolderSweep:
    """Measures the directories of runs and removes what the rules no longer keep."""

    def __init__(
        self,
        folders: RunFolders,
        fact_writer: FactWriter,
        worker_id: str,
        rules: KeepRules,
        in_use: Callable[[], set[str]],
        seconds: float,
    ) -> None:
        self._folders = folders
        self._fact_writer = fact_writer
        self._worker_id = worker_id
        self._rules = rules
        # Runs of which something is held, to be uploaded or to be shipped here. Blocks.
        self._in_use = in_use
        self._seconds = seconds
        # When each run ended whose end is known, and the round in which each other one was read last.
        self._ended: dict[str, int] = {}
        self._read: dict[str, int] = {}
        self._round = 0

    async def run(self) -> None:
        """Sweep at intervals, until cancelled."""
        try:
            while True:
                try:
                    await self.sweep()
                except (CorruptError, OSError) as error:
                    log.error("sweep.failed", error=str(error))
                await asyncio.sleep(self._seconds)
        finally:
            self._folders.stop()

    async def sweep(self) -> None:
        """One round: finish removals that were begun, measure, and remove what is due of ended runs."""
        self._round += 1
        await self._finish()
        sizes = await asyncio.to_thread(self._survey)
        await self._find_ended(set(sizes))
        # Read again: an attempt may have been claimed, or a file announced, while the log was read.
        busy = await asyncio.to_thread(self._in_use)
        ended = [
            EndedFolder(name, self._ended[name], size)
            for name, size in sizes.items()
            if name in self._ended and name not in busy
        ]
        planned = planned_removals(ended, self._rules, now_micros())
        for folder, rule in planned:
            removal = Removal(folder.run_id, folder.size, rule)
            try:
                await asyncio.to_thread(self._folders.set_aside, removal)
            except OSError as error:
                log.error("folder.not_set_aside", run_id=folder.run_id, error=str(error))
        if planned:
            await self._finish()

    def _survey(self) -> dict[str, int]:
        return self._folders.survey(self._in_use())

    async def _find_ended(self, names: set[str]) -> None:
        """Read the histories of runs whose end is not known yet: those first that were read longest ago."""
        self._ended = {name: at for name, at in self._ended.items() if name in names}
        self._read = {name: at for name, at in self._read.items() if name in names}
        unknown = sorted(names - self._ended.keys(), key=lambda name: (self._read.get(name, 0), name))
        for name in unknown[:MAX_READ]:
            self._read[name] = self._round
            try:
                ended_at = await self._ended_at(name)
            except CorruptError as error:
                log.error("sweep.corrupt_log", run_id=name, error=str(error))
                continue
            if ended_at:
                self._ended[name] = ended_at

    async def _ended_at(self, run_id: str) -> int:
        """When the run ended; 0 while it has not, and while files of it from here are not stored."""
        run = fold(await self._fact_writer.read(run_subject(run_id)))
        if run.phase not in ENDED:
            return 0
        attempts = attempts_of(await self._fact_writer.read(attempts_subject(run_id))).attempts
        mine = [attempt for attempt in attempts if attempt.worker_id == self._worker_id]
        return 0 if any(attempt.artifacts_pending for attempt in mine) else run.ended_at

    async def _finish(self) -> None:
        """Empty the directories that were set aside, record the fact, and remove what marks them."""
        removals = await asyncio.to_thread(self._folders.left)
        done = await asyncio.to_thread(self._folders.empty, removals)
        if done:
            await self._record(done)
            await asyncio.to_thread(self._folders.finish, done)
            log.info("folders.removed", folders=len(done), bytes=sum(each.size for each in done))

    async def _record(self, removals: list[Removal]) -> None:
        at = now_micros()

        def unless_recorded(history: list[Fact]) -> list[Fact]:
            known = {folder.run_id for fact in history for folder in fact.folders_removed.folders}
            folders = [
                RemovedFolder(run_id=each.run_id, bytes=each.size, rule=each.rule)
                for each in removals
                if each.run_id not in known
            ]
            removed = FoldersRemoved(worker_id=self._worker_id, folders=folders)
            return [Fact(at=at, folders_removed=removed)] if folders else []

        await self._fact_writer.commit(worker_subject(self._worker_id), unless_recorded)

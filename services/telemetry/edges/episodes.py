"""A run's episodes: sorted pages, and single episodes with all their steps."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from runspine.domain.run import RunRefusedError
from runspine.rpc.errors import NotFoundError
from runspine.services.telemetry.core import steps
from runspine.services.telemetry.core.arrays import numpy
from runspine.services.telemetry.core.rows import (
    ENVS,
    EPISODES,
    MADES,
    RESET,
    RESETS,
    STEPS,
    episodes_of,
    placed_steps,
)
from runspine.services.telemetry.core.step_counter import PlacedBlock
from runspine.services.telemetry.edges.run_views import RunView
from runspine.services.telemetry.edges.segment_store import SegmentStore, group_range
from runspine.wire.v1.manifest_pb2 import Segment
from runspine.wire.v1.telemetry_pb2 import (
    BY_LENGTH,
    BY_RETURN,
    EnvMade,
    EpisodeEntry,
    EpisodeOrder,
    GetEpisodeResponse,
    Reset,
    StepBlock,
)

Column = np.ndarray[Any, Any]
# Size of the tables, which is two or three times that of the answer.
MAX_BYTES = 128 << 20


@dataclass(frozen=True, slots=True)
class EndedEpisodeAt:
    """An episode that has ended, and the position of the batch that reported it."""

    entry: EpisodeEntry
    position: int


class EpisodeReader:
    """Reads a run's episodes from segments and tails."""

    def __init__(self, store: SegmentStore) -> None:
        self._store = store

    async def page(
        self, view: RunView, order: EpisodeOrder, descending: bool, start: int, size: int
    ) -> tuple[list[EpisodeEntry], int]:
        """A page of the episodes in an order, and the number of episodes."""
        by = {BY_RETURN: "return", BY_LENGTH: "steps"}.get(order)
        visible, keys = await self._visible(view, by)
        if keys is None:
            ranked = np.arange(len(visible))[:: -1 if descending else 1]
        else:
            # Equal values in order of time in both directions; NaN comes last.
            ranked = np.argsort(-keys if descending else keys, kind="stable")
        chosen = ranked[start : start + size]
        return [found.entry for found in await self._at(view, visible, chosen)], len(visible)

    async def at(self, view: RunView, index: int) -> EndedEpisodeAt:
        visible, _ = await self._visible(view, None)
        if index >= len(visible):
            raise NotFoundError(f"run {view.run_id} has {len(visible)} episodes, and none at {index}")
        return (await self._at(view, visible, np.array([index])))[0]

    async def end_times(self, view: RunView) -> Column:
        """The times at which episodes ended, sorted."""
        _, keys = await self._visible(view, "ended_at")
        return np.sort(keys) if keys is not None else np.empty(0)

    async def find(self, view: RunView, episode_id: str, attempt: int) -> EndedEpisodeAt | None:
        """Find an ended episode by id, in the newest attempt unless one is given."""
        visible, _ = await self._visible(view, None)
        starts = _starts(view)
        for at in reversed(range(len(starts))):
            table = await self._table(view, at, ["episode_id", "attempt"])
            same = pc.equal(table.column("episode_id"), episode_id).to_numpy(zero_copy_only=False)
            if attempt:
                same = same & (numpy(table, "attempt") == attempt)
            rows = np.flatnonzero(same) + starts[at]
            places = np.flatnonzero(np.isin(visible, rows))
            if len(places):
                return (await self._at(view, visible, places[-1:]))[0]
        return None

    async def _visible(self, view: RunView, by: str | None) -> tuple[Column, Column | None]:
        """Row numbers over all tables of the visible episodes, and their values in one column."""
        columns = [by] if by else []
        rows, keys = [np.empty(0, np.int64)], [np.empty(0)]
        for at, start in enumerate(_starts(view)):
            count = _counts(view)[at]
            hidden = at < len(view.archived[EPISODES]) and bool(view.cutoffs)
            if not hidden and not by:
                rows.append(np.arange(start, start + count))
                continue
            table = await self._table(view, at, [*columns, *(["attempt", "global_step"] if hidden else [])])
            keep = np.ones(count, bool)
            if hidden:
                attempts, done = numpy(table, "attempt"), numpy(table, "global_step")
                for attempt, cutoff in view.cutoffs.items():
                    keep &= (attempts != attempt) | ((done <= max(cutoff, 0)) & (cutoff >= 0))
            rows.append(np.flatnonzero(keep) + start)
            if by:
                keys.append(numpy(table, by).astype(np.float64)[keep])
        return np.concatenate(rows), np.concatenate(keys) if by else None

    async def _table(self, view: RunView, at: int, columns: list[str]) -> pa.Table:
        archived = view.archived[EPISODES]
        if at < len(archived):
            return await self._store.whole(archived[at], columns)
        return view.tables[EPISODES][at - len(archived)].select(columns)

    async def _at(self, view: RunView, visible: Column, places: Column) -> list[EndedEpisodeAt]:
        """The episodes at these indexes among the visible ones."""
        starts = np.array(_starts(view), np.int64)
        archived = view.archived[EPISODES]
        wanted = visible[places]
        tables = np.searchsorted(starts, wanted, side="right") - 1
        found: dict[int, EndedEpisodeAt] = {}
        for at in np.unique(tables).tolist():
            rows = (wanted[tables == at] - starts[at]).tolist()
            if at < len(archived):
                pieces = await self._store.rows(archived[at], None, [(row, row + 1) for row in rows])
            else:
                pieces = [(0, view.tables[EPISODES][at - len(archived)])]
            for first, table in pieces:
                inside = [row for row in rows if first <= row < first + table.num_rows]
                taken = table.take(pa.array([row - first for row in inside], pa.int64()))
                attempts, positions = numpy(taken, "attempt"), numpy(taken, "position")
                for n, episode in enumerate(episodes_of(taken)):
                    entry = EpisodeEntry(attempt=int(attempts[n]), episode=episode)
                    found[inside[n] + int(starts[at])] = EndedEpisodeAt(entry, int(positions[n]))
        for place, row in zip(places.tolist(), wanted.tolist(), strict=True):
            found[row].entry.index = place
        return [found[row] for row in wanted.tolist()]

    async def read(
        self, view: RunView, found: EndedEpisodeAt | None, episode_id: str, attempt: int
    ) -> GetEpisodeResponse:
        """One episode with its reset, its env and all its steps."""
        near = found.position if found else 1 << 62
        expected = await self._length(view, found) if found else 0
        blocks, newest = await self._blocks(view, episode_id, attempt, near, expected)
        reset, made = await self._beginning(view, episode_id, attempt or newest, near)
        if not found and not blocks and reset is None:
            raise NotFoundError(f"run {view.run_id} has no episode {episode_id!r}")
        answer = GetEpisodeResponse(blocks=blocks, reset=reset, env=made)
        if found:
            answer.entry.CopyFrom(found.entry)
        else:
            answer.entry.attempt = attempt or newest
            answer.entry.episode.episode_id = episode_id
        return answer

    async def _length(self, view: RunView, found: EndedEpisodeAt) -> int:
        """Steps of an episode; of several agents, those of all."""
        episode, attempt = found.entry.episode, found.entry.attempt
        if not episode.agent_id:
            return int(episode.steps)
        total = 0
        for at in range(len(_starts(view))):
            table = await self._table(view, at, ["episode_id", "attempt", "steps"])
            same = pc.equal(table.column("episode_id"), episode.episode_id).to_numpy(zero_copy_only=False)
            total += int(np.nansum(numpy(table, "steps")[same & (numpy(table, "attempt") == attempt)]))
        return total

    async def _blocks(
        self, view: RunView, episode_id: str, attempt: int, near: int, expected: int
    ) -> tuple[list[StepBlock], int]:
        tables: dict[tuple[int, int], pa.Table] = {}
        for n, table in enumerate(await asyncio.to_thread(_tail_steps, view, episode_id)):
            part = _select_episode(table, episode_id, attempt)
            if part.num_rows:
                tables[len(view.archived[STEPS]) + n, 0] = part
        have = _distinct_steps(tables.values())
        async for at, group, table in self._outward(view.archived[STEPS], ["episode_id"], near, episode_id):
            if expected and have >= expected:
                break
            if not expected and have and _has_first_steps(tables.values()):
                break
            if table is None:
                continue
            [(_, whole)] = await self._store.groups(view.archived[STEPS][at], None, [group])
            part = _select_episode(whole, episode_id, attempt)
            if part.num_rows:
                tables[at, group] = part
                have = _distinct_steps(tables.values())
            if sum(part.nbytes for part in tables.values()) > MAX_BYTES:
                raise RunRefusedError(
                    f"episode {episode_id!r} has more steps than fit into one answer, {have} and more: "
                    "read them with StreamSteps or SQL"
                )
        return await asyncio.to_thread(_decoded, view, tables)

    async def _beginning(
        self, view: RunView, episode_id: str, attempt: int, near: int
    ) -> tuple[Reset | None, EnvMade | None]:
        resets = [segment for segment in view.archived[ENVS] if segment.variant == RESETS]
        reset: Reset | None = None
        for arrival in view.tails[ENVS]:
            if arrival.batch.attempt <= attempt:
                reset = next((r for r in arrival.batch.envs.resets if r.episode_id == episode_id), reset)
        if reset is None:
            async for at, group, table in self._outward(resets, ["episode_id"], near, episode_id):
                if table is None:
                    continue
                [(_, whole)] = await self._store.groups(resets[at], None, [group])
                part = _select_episode(whole, episode_id, attempt)
                part = part.filter(pc.equal(part.column("entry"), RESET))
                if part.num_rows:
                    newest = int(np.argmax(numpy(part, "attempt")))
                    reset = Reset.FromString(part.column("data")[newest].as_py())
                    break
        return reset, await self._made(view, attempt, reset or Reset(at=1 << 62))

    async def _made(self, view: RunView, attempt: int, reset: Reset) -> EnvMade | None:
        """The env of the slot when the episode began, in this attempt or the newest one before it."""
        found: list[tuple[int, EnvMade]] = []
        for segment in view.archived[ENVS]:
            if segment.variant == MADES:
                table = await self._store.whole(segment)
                for number, entry, data in zip(
                    *(table.column(c).to_pylist() for c in ("attempt", "entry", "data")), strict=True
                ):
                    if entry == 1 and number <= attempt:
                        found.append((number, EnvMade.FromString(data)))
        for arrival in view.tails[ENVS]:
            if arrival.batch.attempt <= attempt:
                found += [(arrival.batch.attempt, made) for made in arrival.batch.envs.made]
        # A slot may have had several envs in succession.
        ranked = [
            (number, made.at <= reset.at, made.at if made.at <= reset.at else -made.at, place)
            for place, (number, made) in enumerate(found)
            if made.slot == reset.slot
        ]
        return found[max(ranked)[3]][1] if ranked else None

    async def _outward(
        self, segments: Sequence[Segment], columns: list[str], near: int, episode_id: str
    ) -> AsyncIterator[tuple[int, int, pa.Table | None]]:
        """Row groups in order of distance to a position; with a table if the group holds the episode."""
        places: list[tuple[int, int, int]] = []
        for at, segment in enumerate(segments):
            footer = await self._store.footer(segment.key, segment.size)
            for group in range(footer.num_row_groups):
                low, high = group_range(footer, group, "position")
                places.append((max(low - near, near - high, 0), at, group))
        for _, at, group in sorted(places):
            [(_, table)] = await self._store.groups(segments[at], columns, [group])
            named = pc.any(pc.equal(table.column("episode_id"), episode_id)).as_py()
            yield at, group, table if named else None


def _tail_steps(view: RunView, episode_id: str) -> list[pa.Table]:
    """Tables of the episode's steps that are not archived yet."""
    placed = [p for p in placed_steps(view.tails[STEPS]) if p.block.episode_id == episode_id]
    return list(steps.encode(placed, view.before[STEPS]).values()) if placed else []


def _counts(view: RunView) -> list[int]:
    return [*(s.rows for s in view.archived[EPISODES]), *(t.num_rows for t in view.tables[EPISODES])]


def _starts(view: RunView) -> list[int]:
    """The number of the first row of each table."""
    counts = _counts(view)
    return [sum(counts[:at]) for at in range(len(counts))]


def _select_episode(table: pa.Table, episode_id: str, attempt: int) -> pa.Table:
    mask = pc.equal(table.column("episode_id"), episode_id)
    if attempt:
        mask = pc.and_(mask, pc.less_equal(table.column("attempt"), attempt))
    return table.filter(mask)


def _distinct_steps(tables: Collection[pa.Table]) -> int:
    """How many rows of an episode there are; a step that two attempts recorded counts once."""
    if len({attempt for table in tables for attempt in np.unique(numpy(table, "attempt")).tolist()}) < 2:
        return sum(table.num_rows for table in tables)
    columns = ("slot", "agent_id", "step")
    return len(
        {row for table in tables for row in zip(*(table.column(c).to_pylist() for c in columns), strict=True)}
    )


def _has_first_steps(tables: Any) -> bool:
    """Whether the first step of every agent is in the tables."""
    joined = pa.concat_tables([t.select(["agent_id", "first_step"]) for t in tables]).unify_dictionaries()
    agents = np.array(joined.column("agent_id").to_pylist())
    firsts = numpy(joined, "first_step")
    return all((firsts[agents == agent] == 0).any() for agent in np.unique(agents))


def _decoded(view: RunView, tables: dict[tuple[int, int], pa.Table]) -> tuple[list[StepBlock], int]:
    """Visible blocks in the order of their steps, and their newest attempt."""
    placed: list[PlacedBlock] = []
    variants: dict[str, list[pa.Table]] = {}
    for key in sorted(tables):
        variants.setdefault(str(tables[key].schema), []).append(tables[key])
    wholes = [pa.concat_tables(parts).unify_dictionaries() for parts in variants.values()]
    visible = [steps.visible_steps(whole, view.cutoffs) for whole in wholes]
    for table in steps.without_repeats(visible):
        placed += steps.decode(table)
    placed.sort(
        key=lambda p: (p.block.slot, p.block.agent_id, p.attempt, p.block.first_step, p.position, p.order)
    )
    return [p.block for p in placed], max((p.attempt for p in placed), default=0)

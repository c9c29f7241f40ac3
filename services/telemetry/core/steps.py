"""Conversion of blocks of steps to tables and back, bit for bit. Pure.

Steps whose actions, rewards and observations have the same form share a table (a variant). Blocks that do
not fit into columns are kept as their bytes, one row for each, in the variant `raw`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from runspine.services.telemetry.core.arrays import Form, Rows, coded, form_of, joined, numpy, to_column
from runspine.services.telemetry.core.step_counter import (
    Counters,
    PlacedBlock,
    block_counters,
    row_counters,
    row_times,
)
from runspine.wire.v1.telemetry_pb2 import StepBlock

RAW = "raw"
HASH_BYTES = 8
# Limits the objects of a trainer whose blocks all have different forms.
MAX_VARIANTS = 8
MAX_STEP = (1 << 64) - 1


class Signature(NamedTuple):
    """The forms of a block's action, reward and observation; blocks with the same signature share a table."""

    action: Form | str
    reward: Form
    observation: Form | str
    # Whether the block names its actor. A separate variant, so that tables without actors stay as they are.
    acted: bool = False

    def __str__(self) -> str:
        return f"a={self.action} r={self.reward} o={self.observation}" + (" by" if self.acted else "")


_name = functools.lru_cache(maxsize=1024)(str)


def signature(block: StepBlock) -> Signature | None:
    """The columns that a block needs; None when it does not fit into columns."""
    count = block.count
    action: Form | str | None
    if block.HasField("action"):
        action = None if block.action_json else form_of(block.action, count)
    elif block.action_json:
        action = "json" if len(block.action_json) == count else None
    else:
        # Of slots that are not captured whole.
        action = "none"
    reward = form_of(block.reward, count) if block.HasField("reward") else None
    observation = _observation(block)
    if not count or not action or not reward or not observation or len(block.flags) != count:
        return None
    return Signature(action, reward, observation, bool(block.actor))


def _observation(block: StepBlock) -> Form | str | None:
    given = [block.HasField("observation"), bool(block.observation_hash), bool(block.observation_json)]
    if sum(given) > 1:
        return None
    if given[0]:
        return form_of(block.observation, block.count)
    if given[1]:
        return "hash" if len(block.observation_hash) == HASH_BYTES * block.count else None
    if given[2]:
        return "json" if len(block.observation_json) == block.count else None
    return "none"


def encode(placed: Sequence[PlacedBlock], before: Mapping[int, int]) -> dict[str, pa.Table]:
    """Tables by variant, rows in order of arrival. `before`: the steps that each attempt already has."""
    groups: dict[str, _Group] = {}
    counters = block_counters(placed, before)
    for index, item in enumerate(placed):
        form = signature(item.block)
        name = _name(form) if form else RAW
        if name not in groups and len(groups) >= MAX_VARIANTS:
            form, name = None, RAW
        group = groups.setdefault(name, _Group(form))
        group.items.append(item)
        group.places.append(index)
    return {name: group.table(counters) for name, group in groups.items()}


@dataclass(slots=True)
class _Group:
    form: Signature | None
    items: list[PlacedBlock] = field(default_factory=list)
    places: list[int] = field(default_factory=list)

    def table(self, counters: Counters) -> pa.Table:
        counters = Counters(*(column[self.places] for column in counters))
        blocks = [item.block for item in self.items]
        counts = np.fromiter((b.count for b in blocks), np.int64, len(blocks))
        if self.form is None:
            columns = self._shared(np.ones(len(blocks), np.int64), counts, counters)
            columns["data"] = pa.array([b.SerializeToString(deterministic=True) for b in blocks], pa.binary())
            return pa.table(columns)
        columns = self._shared(counts, counts, counters)
        if self.form.acted:
            columns["actor"] = coded([b.actor for b in blocks], counts)
        schema = [pa.field(name, column.type, nullable=False) for name, column in columns.items()]
        for name, field_, column in self._typed(self.form, blocks):
            columns[name] = column
            schema.append(field_.with_name(name))
        return pa.Table.from_arrays(list(columns.values()), schema=pa.schema(schema))

    def _shared(
        self, rows: np.ndarray[Any, Any], counts: np.ndarray[Any, Any], counters: Counters
    ) -> dict[str, pa.Array]:
        items, blocks = self.items, [item.block for item in self.items]
        n = len(items)
        firsts = np.fromiter((b.first_step for b in blocks), np.uint64, n)
        first_at = np.fromiter((b.first_at for b in blocks), np.int64, n)
        last_at = np.fromiter((b.last_at for b in blocks), np.int64, n)
        within = np.arange(int(rows.sum())) - np.repeat(np.cumsum(rows) - rows, rows)

        def spread(values: Any, dtype: Any) -> pa.Array:
            column = values if isinstance(values, np.ndarray) else np.fromiter(values, dtype, n)
            return pa.array(np.repeat(column, rows))

        return {
            "attempt": spread((i.attempt for i in items), np.uint32),
            "position": spread((i.position for i in items), np.uint64),
            "block": spread((i.order for i in items), np.uint32),
            "slot": spread((b.slot for b in blocks), np.uint32),
            "agent_id": coded([b.agent_id for b in blocks], rows),
            "episode_id": coded([b.episode_id for b in blocks], rows),
            "step": pa.array(np.repeat(firsts, rows) + within.astype(np.uint64)),
            "first_step": spread(firsts, np.uint64),
            "count": spread(counts.astype(np.uint32), np.uint32),
            "first_at": spread(first_at, np.int64),
            "span": spread(last_at - first_at, np.int64),
            "counter": spread(counters.counter, np.uint64),
            "said": spread(counters.reported, np.uint8),
            "stride": spread(counters.stride, np.uint32),
        }

    def _typed(self, form: Signature, blocks: list[StepBlock]) -> Iterator[tuple[str, pa.Field, pa.Array]]:
        if isinstance(form.action, Form):
            yield "action", *to_column(form.action, [b.action.data for b in blocks])
        elif form.action == "json":
            yield "action_json", *_texts([text for b in blocks for text in b.action_json])
        yield "reward", *to_column(form.reward, [b.reward.data for b in blocks])
        flags = np.frombuffer(b"".join(b.flags for b in blocks), np.uint8)
        yield "flags", pa.field("", pa.uint8(), nullable=False), pa.array(flags)
        if isinstance(form.observation, Form):
            yield "observation", *to_column(form.observation, [b.observation.data for b in blocks])
        elif form.observation == "hash":
            hashes = np.frombuffer(b"".join(b.observation_hash for b in blocks), np.uint64)
            yield "observation_hash", pa.field("", pa.uint64(), nullable=False), pa.array(hashes)
        elif form.observation == "json":
            yield "observation_json", *_texts([text for b in blocks for text in b.observation_json])


def _texts(texts: list[str]) -> tuple[pa.Field, pa.Array]:
    return pa.field("", pa.string(), nullable=False), pa.array(texts, pa.string())


def decode(table: pa.Table) -> Iterator[PlacedBlock]:
    """The blocks, in row order. The table begins and ends with a whole block."""
    if not table.num_rows:
        return
    shared = {name: numpy(table, name) for name in SHARED}
    episodes, agents = _Texts(table, "episode_id"), _Texts(table, "agent_id")
    actors = _Texts(table, "actor") if "actor" in table.column_names else None
    # Whole columns wrap around where single numbers would raise an overflow.
    last_at = shared["first_at"] + shared["span"]
    cuts = block_starts(shared["position"], shared["block"])
    ends = np.append(cuts[1:], table.num_rows)
    fill = _raw(table) if "data" in table.column_names else _filler(table)
    for start, end in zip(cuts.tolist(), ends.tolist(), strict=True):
        block = StepBlock(
            episode_id=episodes[start],
            agent_id=agents[start],
            slot=int(shared["slot"][start]),
            first_step=int(shared["first_step"][start]),
            count=int(shared["count"][start]),
            first_at=int(shared["first_at"][start]),
            last_at=int(last_at[start]),
            global_step=int(shared["counter"][start]) if shared["said"][start] else 0,
            actor=actors[start] if actors else "",
        )
        fill(block, start, end)
        yield PlacedBlock(
            int(shared["position"][start]), int(shared["attempt"][start]), int(shared["block"][start]), block
        )


SHARED = (
    "attempt",
    "position",
    "block",
    "slot",
    "first_step",
    "count",
    "first_at",
    "span",
    "counter",
    "said",
)


def block_starts(positions: np.ndarray[Any, Any], orders: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows at which a block begins."""
    changed = (positions[1:] != positions[:-1]) | (orders[1:] != orders[:-1])
    return np.append(0, np.flatnonzero(changed) + 1)


def _raw(table: pa.Table) -> Any:
    data = joined(table.column("data"))

    def fill(block: StepBlock, start: int, end: int) -> None:
        block.ParseFromString(data[start].as_py())

    return fill


def _filler(table: pa.Table) -> Any:
    columns = {
        name: Rows(table.schema.field(name), table.column(name))
        for name in ARRAYS
        if name in table.column_names
    }
    texts = {name: joined(table.column(name)) for name in JSONS if name in table.column_names}
    flags = numpy(table, "flags")
    hashes = numpy(table, "observation_hash") if "observation_hash" in table.column_names else None

    def fill(block: StepBlock, start: int, end: int) -> None:
        block.flags = flags[start:end].tobytes()
        for name, rows in columns.items():
            getattr(block, name).CopyFrom(rows.cut(start, end))
        for name, column in texts.items():
            getattr(block, name).extend(column[start:end].to_pylist())
        if hashes is not None:
            block.observation_hash = hashes[start:end].tobytes()

    return fill


ARRAYS = ("action", "reward", "observation")
JSONS = ("action_json", "observation_json")


class _Texts:
    """A dictionary column, looked up by row."""

    def __init__(self, table: pa.Table, name: str) -> None:
        column = joined(table.column(name))
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        self._codes = column.indices.to_numpy(zero_copy_only=False)
        self._texts = column.dictionary.to_pylist()

    def __getitem__(self, row: int) -> str:
        text: str = self._texts[self._codes[row]]
        return text


def visible_steps(table: pa.Table, cutoffs: Mapping[int, int]) -> pa.Table:
    """The table without superseded steps. A step is visible when its counter is below its attempt's cutoff;
    a block that is cut ends at the time of its last visible step."""
    attempts = numpy(table, "attempt")
    if not any((attempts == attempt).any() for attempt in cutoffs):
        return table
    limits = np.full(table.num_rows, np.iinfo(np.uint64).max, np.uint64)
    for attempt, cutoff in cutoffs.items():
        limits[attempts == attempt] = max(cutoff, 0)
    return _kept(table, row_counters(table) < limits)


def without_repeats(tables: Sequence[pa.Table]) -> list[pa.Table]:
    """Steps of one episode, each once: where a later attempt recorded it again under the same id, from the
    first step of that on, what earlier attempts recorded is left out."""
    if len({attempt for table in tables for attempt in np.unique(numpy(table, "attempt")).tolist()}) < 2:
        return list(tables)
    firsts: dict[tuple[int, str], dict[int, int]] = {}
    keys = [_slots_of(table) for table in tables]
    for table, slots in zip(tables, keys, strict=True):
        rows = zip(slots, numpy(table, "attempt").tolist(), numpy(table, "step").tolist(), strict=True)
        for slot, attempt, step in rows:
            known = firsts.setdefault(slot, {})
            known[attempt] = min(step, known.get(attempt, step))
    kept = []
    for table, slots in zip(tables, keys, strict=True):
        limits = [
            min((first for later, first in firsts[slot].items() if later > attempt), default=MAX_STEP)
            for slot, attempt in zip(slots, numpy(table, "attempt").tolist(), strict=True)
        ]
        kept.append(_kept(table, numpy(table, "step") < np.array(limits, np.uint64)))
    return kept


def _slots_of(table: pa.Table) -> list[tuple[int, str]]:
    return list(zip(numpy(table, "slot").tolist(), table.column("agent_id").to_pylist(), strict=True))


def _kept(table: pa.Table, keep: np.ndarray[Any, Any]) -> pa.Table:
    if keep.all():
        return table
    ends = row_times(table)
    table, ends = table.filter(pa.array(keep)), ends[keep]
    if not table.num_rows or "data" in table.column_names:
        return table
    starts = block_starts(numpy(table, "position"), numpy(table, "block"))
    counts = np.diff(np.append(starts, table.num_rows))
    spans = ends[starts + counts - 1] - numpy(table, "first_at")[starts]
    cut = counts < numpy(table, "count")[starts]
    spans = np.where(cut, spans, numpy(table, "span")[starts])
    for name, values in (("count", counts.astype(np.uint32)), ("span", spans)):
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(at), pa.array(np.repeat(values, counts)))
    return table

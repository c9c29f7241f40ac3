"""Inputs that come close: grammars of each format, and what was found before with bytes changed."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import random
import zipfile
from collections.abc import Iterator
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import strategies as st

from runspine.frames import frame
from runspine.services.telemetry.core.manifest import pack
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.manifest_pb2 import Manifest
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import ListRequest, LogRecord
from tests.kit.paths import CORPUS

_INTEGERS = {
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_SINT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_ENUM: (-2, 40),
}
REPORTED = """
type step steps episode metric metrics env reset config artifact progress evaluation mind turn
episode_id slot agent_id action reward terminated truncated obs t first n global_step flags t0 t1 dtype
shape data return name value values kind path meta seed args <f4 <i8 |b1 AAAA returns lengths digest env_id
algo t_end total goals beliefs intentions obs_hash rng options
"""
WORDS = REPORTED.split()
FIELDS = """
runner: script|command: [x, y]|seeds: 1..3|seeds: [1, 2]|sweep:|search:|  params.a: [1, 2]
  params.a: {float: [0, 1]}|  params.b: {int: [1, 9], step: 2}|  command: {choice: [[a], [b]]}|params:
  a: 3e-4|  b: {c: [1, null]}|labels: {k: v}|limits: {wall_seconds: 5}|total_steps: 1_000|trials: 3
pruner: median|sampler: grid|metric: m|seed: 7|name: n|variables: {A: '1'}|mode: train|startup: 3
env_kwargs: {d: 1}|secrets: [A]|---
"""
SIGNS = [
    "- ",
    "? ",
    ": ",
    "&a ",
    "*a",
    "!!python/object ",
    "|\n",
    ">\n",
    "'",
    '"',
    *"{}[]#\t\n~",
    ".inf",
    "0x1f",
]
YAML_WORDS = [
    *(f"{field}\n" for field in FIELDS.strip("\n").replace("\n", "|").split("|")),
    *SIGNS,
    *("1e999", "\u2028", "\x00", "é", "\ufeff"),
]


def message(kind: type[Message], depth: int = 3) -> st.SearchStrategy[Any]:
    """Any message of this kind, every field of it anything."""
    return st.composite(lambda draw: _fill(draw, kind(), depth))()


def _fill(draw: Any, made: Any, depth: int) -> Any:
    fields = list(made.DESCRIPTOR.fields)
    for field in draw(st.lists(st.sampled_from(fields), max_size=6)) if fields else ():
        _put(draw, made, field, depth)
    return made


def _put(draw: Any, made: Any, field: Any, depth: int) -> None:
    kind = field.message_type
    if kind is not None and kind.GetOptions().map_entry:
        _put_entry(draw, getattr(made, field.name), kind, depth)
    elif kind is not None and depth:
        _fill(draw, getattr(made, field.name).add() if field.is_repeated else _own(made, field), depth - 1)
    elif kind is None and field.is_repeated:
        getattr(made, field.name).extend(draw(st.lists(_scalar(field), max_size=3)))
    elif kind is None:
        setattr(made, field.name, draw(_scalar(field)))


def _own(made: Any, field: Any) -> Any:
    inner = getattr(made, field.name)
    inner.SetInParent()
    return inner


def _put_entry(draw: Any, entries: Any, kind: Any, depth: int) -> None:
    key, value = draw(_scalar(kind.fields_by_name["key"])), kind.fields_by_name["value"]
    if value.message_type is None:
        entries[key] = draw(_scalar(value))
    elif depth:
        _fill(draw, entries[key], depth - 1)


def _scalar(field: Any) -> st.SearchStrategy[Any]:
    if field.type in _INTEGERS:
        low, high = _INTEGERS[field.type]
        return st.integers(low, high) | st.integers(max(low, -2), 3)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return st.booleans()
    if field.type == FieldDescriptor.TYPE_BYTES:
        return st.binary(max_size=40)
    if field.type in (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT):
        return st.floats(width=32)
    return st.text(max_size=20) | st.sampled_from(["script", "default", "a", "01ARZ3NDEKTSV4RRFFQ69G5FAV"])


def _bytes_of(kind: type[Message]) -> st.SearchStrategy[bytes]:
    return message(kind).map(lambda made: made.SerializeToString(deterministic=True))


def changed(whole: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """A few bytes of it replaced, removed or put in."""
    edit = st.tuples(st.integers(0, 1 << 16), st.integers(0, 4), st.binary(max_size=8))

    def apply(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
        made = bytearray(data)
        for at, remove, put in edits:
            place = at % (len(made) + 1)
            made[place : place + remove] = put
        return bytes(made)

    return st.builds(apply, whole, st.lists(edit, max_size=6))


def mutants(data: bytes, count: int) -> Iterator[bytes]:
    """Many cheap neighbours of one input: a grammar finds the way in, these go round it."""
    dice = random.Random(data)
    for _ in range(count):
        made = bytearray(data)
        for _ in range(dice.randint(1, 4)):
            at = dice.randint(0, len(made))
            match dice.randint(0, 3):
                case 0:
                    made[at : at + 1] = bytes([dice.getrandbits(8)])
                case 1:
                    made[at : at + dice.randint(1, 8)] = b""
                case 2:
                    made[at:at] = dice.choice((b"\0", b"\xff" * 8, b"-1", b"1e999", b'"', b"[[", b"{", b"\n"))
                case 3:
                    made[at:at] = made[dice.randint(0, at) :][: dice.randint(1, 40)]
        yield bytes(made)


def _json() -> st.SearchStrategy[Any]:
    leaf = (
        st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text(max_size=8)
    )
    return st.recursive(
        leaf,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=6)
        ),
        max_leaves=12,
    )


def _line() -> st.SearchStrategy[bytes]:
    emitted = st.dictionaries(st.sampled_from(WORDS), _json(), max_size=10)
    typed = st.builds(lambda kind, rest: {"type": kind, **rest}, st.sampled_from(WORDS[1:13]), emitted)
    spoken = typed.map(lambda value: json.dumps(value).encode())
    printed = st.builds(
        lambda a, b: f"global_step={a}, episodic_return={b}".encode(),
        st.text(max_size=9),
        st.text(max_size=9),
    )
    return spoken | changed(spoken) | printed | st.binary(max_size=60)


def _frame() -> st.SearchStrategy[bytes]:
    """Frames of steps whose columns are as long as they state, and some that are not."""

    @st.composite
    def made(draw: Any) -> bytes:
        slots, rows = draw(st.integers(1, 4)), draw(st.integers(1, 5))
        whole = draw(st.integers(0, slots))
        flags = bytes(draw(st.lists(st.integers(0, 4), min_size=rows * slots, max_size=rows * slots)))
        header = {
            "type": "grid", "slot": draw(st.integers(0, 9)), "slots": slots, "whole": whole, "rows": rows,
            "end": "", "global_step": draw(st.integers(0, 99)), "same_step": draw(st.booleans()),
            "columns": [["reward", "<f4", []], ["action", "|u1", [2]]], "t0": 1.0, "t1": 2.0,
        }  # fmt: skip
        header |= draw(st.dictionaries(st.sampled_from(sorted(header)), st.integers(-1, 1 << 33), max_size=1))
        size = slots * 20 + rows * slots * 4
        data = [bytes(draw(st.integers(size - 1, size)) if draw(st.booleans()) else size), flags]
        return frame(header, [*data, bytes(rows * whole * 2)])

    @st.composite
    def of_one(draw: Any) -> bytes:
        steps, seen = draw(st.integers(1, 5)), draw(st.sampled_from(["obs", "obs_hash"]))
        header = {
            "type": "steps", "episode_id": "0-0", "slot": draw(st.integers(0, 9)), "t0": 1.0, "t1": 2.0,
            "first": draw(st.integers(0, 9)), "n": steps, "flags": draw(st.integers(0, 3)),
            "global_step": draw(st.integers(0, 99)),
            "columns": [["reward", "<f8", []], ["action", "|u1", [2]], [seen, "|u1", [8]]],
        }  # fmt: skip
        header |= draw(st.dictionaries(st.sampled_from(sorted(header)), st.integers(-1, 1 << 63), max_size=1))
        return frame(header, [bytes(draw(st.integers(steps * 18 - 1, steps * 18)))])

    return made() | of_one()


def _archive() -> st.SearchStrategy[bytes]:
    names = st.text(max_size=12) | st.sampled_from(
        ["../x", "/x", "a/../../x", "data.pkl", "model/data.pkl", "a"]
    )

    def packed(entries: dict[str, bytes], how: int) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w", how) as file:
            for name, data in entries.items():
                file.writestr(name.replace("\0", "") or "x", data)
        return buffer.getvalue()

    pickled = _json().map(lambda value: pickle.dumps(value, 2))
    content = st.binary(max_size=40) | pickled | changed(pickled)
    how = st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    tensors = st.builds(
        lambda size, head: size.to_bytes(8, "little") + head,
        st.integers(0, 2**64 - 1) | st.integers(0, 60),
        _json().map(lambda value: json.dumps(value).encode()),
    )
    return st.builds(packed, st.dictionaries(names, content, max_size=4), how) | tensors | pickled


def _export() -> st.SearchStrategy[bytes]:
    def length(size: int) -> bytes:
        return bytes([size & 127 | 128, size >> 7]) if size > 127 else bytes([size])

    record = message(LogRecord, 1).map(lambda made: made.SerializeToString())
    body = st.lists(record, max_size=4).map(lambda all_: b"".join(length(len(one)) + one for one in all_))
    return (body | changed(body)).map(lambda data: gzip.compress(data, 1, mtime=0))


def seeds(target: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((CORPUS / target).glob("*"))]


def inputs(target: str) -> st.SearchStrategy[bytes]:
    """What a target is given."""
    yaml = st.lists(st.sampled_from(YAML_WORDS) | st.text(max_size=4), max_size=14).map(
        lambda parts: "".join(parts).encode("utf-8", "surrogatepass")
    )
    part = st.sampled_from(["..", ".", "a", "link", "/", "\0", "~", "\\"]) | st.text(max_size=5)
    near: dict[str, st.SearchStrategy[bytes]] = {
        "frames": st.lists(st.one_of(_frame(), changed(_frame()), _line()), max_size=5).map(b"".join),
        "protocol": st.lists(_line(), max_size=6).map(b"\n".join),
        "runfile": yaml,
        "sweepfile": yaml,
        "request": _bytes_of(RunSpec) | _bytes_of(ListRequest),
        "artifact": st.lists(part).map(lambda parts: "/".join(parts).encode("utf-8", "surrogatepass")),
        "imports": st.builds(lambda kind, data: bytes([kind]) + data, st.integers(0, 3), _archive()),
        "events": _bytes_of(Commit),
        "exported": _export(),
        "manifest": message(Manifest).map(pack),
    }
    given = near[target]
    known = seeds(target)
    found = changed(st.sampled_from(known)) if known else st.nothing()
    return given | changed(given) | found | st.binary(max_size=200)

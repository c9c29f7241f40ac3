"""Scalars of TensorBoard's event files, as the worker reads them."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.summary.writer.event_file_writer import EventFileWriter
from tensorboardX import SummaryWriter  # type: ignore[import-untyped]

from runspine.domain.event_scalars import EventFileError, EventFileReader
from runspine.services.worker.artifacts.discovery import kind_of


def read(data: bytes, size: int = 7) -> list[Any]:
    reader = EventFileReader()
    chunks = [data[at : at + size] for at in range(0, len(data), size)]
    return [scalar for chunk in chunks for scalar in reader.feed(chunk)]


def framed(event: bytes) -> bytes:
    return struct.pack("<QI", len(event), 0) + event + bytes(4)


def test_scalars_of_both_writers_come_out_exactly_in_any_pieces(tmp_path: Path) -> None:
    writer = SummaryWriter(str(tmp_path / "x"))
    for step in range(50):
        writer.add_scalar("loss/policy", step / 8, step, walltime=1000.5 + step)
        writer.add_text("words", "no scalar", step)
    writer.close()
    (path,) = (tmp_path / "x").iterdir()
    found = read(path.read_bytes())
    assert [tuple(scalar) for scalar in found] == [
        ("loss/policy", step, step / 8, int((1000.5 + step) * 1e6)) for step in range(50)
    ]
    direct = EventFileWriter(str(tmp_path / "y"))
    direct.add_event(Event(wall_time=2.0, step=-1, summary=Summary(value=[scalar_tensor("t", 0.25)])))
    direct.close()
    (path,) = (tmp_path / "y").iterdir()
    assert read(path.read_bytes()) == [("t", 0, 0.25, 2_000_000)]


def scalar_tensor(tag: str, value: float) -> Any:
    metadata = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="scalars"))
    return Summary.Value(tag=tag, metadata=metadata, tensor=TensorProto(dtype=1, float_val=[value]))


def test_half_a_record_waits_for_its_rest() -> None:
    data = framed(
        Event(step=3, summary=Summary(value=[Summary.Value(tag="a", simple_value=1.5)])).SerializeToString()
    )
    reader = EventFileReader()
    assert reader.feed(data[:-1]) == []
    assert [tuple(scalar)[:3] for scalar in reader.feed(data[-1:])] == [("a", 3, 1.5)]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for each in (data, framed(data)):
        try:
            read(each, 64)
        except EventFileError:
            continue


def test_a_record_of_absurd_length_is_refused() -> None:
    with pytest.raises(EventFileError, match="a record of"):
        read(struct.pack("<QI", 1 << 60, 0))


def test_event_files_are_kept_wherever_they_lie_except_copies() -> None:
    assert kind_of("log/ppo/events.out.tfevents.1") == "tensorboard"
    assert kind_of("events.out.tfevents.1") == "tensorboard"
    assert kind_of("artifacts/events.out.tfevents.1") == ""

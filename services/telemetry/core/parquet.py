"""Tables as Parquet bytes, with an encoding chosen for each column. Pure."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pyarrow as pa
import pyarrow.parquet as pq

MAX_GROUP_ROWS = 131_072
COMPRESSION_LEVEL = 3
# Columns by which row groups are selected.
STATISTICS = ["position", "attempt", "level", "row", "number"]
# Floats have no dictionary: it would merge values that are equal but not identical (NaNs, −0.0).
DELTA = {"step", "at", "ended_at", "global_step", "number", "row"}
SPLIT = {"value", "low", "high", "total", "return"}
PLAIN_TEXT = {"text", "data", "action_json", "observation_json"}


def writer(sink: object, schema: pa.Schema) -> pq.ParquetWriter:
    dictionary: list[str] = []
    encodings: dict[str, str] = {}
    for field in schema:
        encoding = _encoding(field)
        if encoding:
            encodings[_path(field)] = encoding
        elif not pa.types.is_floating(_values(field)) and field.name not in PLAIN_TEXT:
            dictionary.append(_path(field))
    return pq.ParquetWriter(
        sink,
        schema,
        compression="zstd",
        compression_level=COMPRESSION_LEVEL,
        use_dictionary=dictionary or False,
        column_encoding=encodings or None,
        write_statistics=[name for name in STATISTICS if name in schema.names] or False,
        data_page_size=1 << 20,
        dictionary_pagesize_limit=4 << 20,
        write_page_checksum=True,
    )


def _encoding(field: pa.Field) -> str:
    kind = _values(field)
    if pa.types.is_floating(kind):
        return "BYTE_STREAM_SPLIT"
    if field.name == "observation_hash":
        return "PLAIN"
    if field.name in DELTA and pa.types.is_integer(kind):
        return "DELTA_BINARY_PACKED"
    if field.name == "episode_id" and not pa.types.is_dictionary(field.type):
        return "DELTA_BYTE_ARRAY"
    return ""


def _values(field: pa.Field) -> pa.DataType:
    return field.type.value_type if pa.types.is_fixed_size_list(field.type) else field.type


def _path(field: pa.Field) -> str:
    return f"{field.name}.list.element" if pa.types.is_fixed_size_list(field.type) else field.name


def to_bytes(table: pa.Table, groups: Iterable[int] = (), max_rows: int = MAX_GROUP_ROWS) -> bytes:
    """The table in row groups of at most `max_rows` rows, or of the sizes in `groups`."""
    sink = io.BytesIO()
    with writer(sink, table.schema) as out:
        start = 0
        for count in groups or [table.num_rows]:
            out.write_table(table.slice(start, count), row_group_size=max_rows)
            start += count
    return sink.getvalue()


def from_bytes(data: bytes, columns: list[str] | None = None) -> pa.Table:
    source = pa.BufferReader(data)
    return pq.ParquetFile(source, page_checksum_verification=True).read(columns=columns)

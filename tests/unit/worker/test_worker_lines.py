from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from runspine.services.worker.protocol.line_splitter import LineSplitter, split_text


def split(chunks: list[bytes], max_bytes: int = 1 << 20) -> list[bytes]:
    splitter = LineSplitter(max_bytes)
    lines = [line for chunk in chunks for line in splitter.feed(chunk)]
    return lines + list(splitter.finish())


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=8))
def test_where_the_pipe_cuts_makes_no_difference(data: bytes, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks = [data[a:b] for a, b in pairwise(edges)]
    assert split(chunks) == split([data])


@given(st.lists(st.text(st.characters(exclude_characters="\n\r", codec="utf-8")), max_size=10))
def test_lines_come_back_as_they_were_written(lines: list[str]) -> None:
    written = [line.encode() for line in lines]
    assert split([b"".join(line + b"\n" for line in written)]) == written


def test_a_last_line_without_an_end_is_kept() -> None:
    assert split([b"one\ntwo"]) == [b"one", b"two"]


def test_windows_line_ends_are_taken_off() -> None:
    assert split([b"one\r", b"\ntwo\r\n"]) == [b"one", b"two"]


def test_bytes_that_are_not_text_are_left_to_the_reader() -> None:
    assert split([b"a\xff\xc3", b"\xa9b\n"]) == [b"a\xff\xc3\xa9b"]


def test_a_line_that_never_ends_is_cut_instead_of_filling_the_memory() -> None:
    assert split([b"x" * 10] * 3 + [b"\n"], max_bytes=20) == [b"x" * 20, b"x" * 10]


@given(st.text(st.characters(codec="utf-8"), max_size=200), st.integers(4, 50))
def test_pieces_are_small_enough_and_add_up(text: str, most: int) -> None:
    parts = list(split_text(text, most))
    assert "".join(parts) == text
    assert all(len(part.encode()) <= most for part in parts)
    assert parts

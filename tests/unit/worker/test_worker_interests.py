"""Who looks, added up; and pictures that fit into a message."""

from __future__ import annotations

import io
import os
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image

from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.services.worker.live.frames import (
    NotAFrameError,
    RawFrame,
    encode_frame,
    encode_jpeg,
    parse_header,
)
from runspine.services.worker.live.publisher import MAX_WAITING_BYTES, FramePublisher
from runspine.services.worker.live.view_socket import ViewSocket
from runspine.services.worker.live.viewers import MAX_VIEWERS, VIEWER_SECONDS, ViewerRequest, ViewerRequests
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.live_pb2 import Interest


def test_nobody_wants_anything_and_one_viewer_gets_what_it_asks_for() -> None:
    interests = ViewerRequests()
    assert interests.request(0.0) is None
    assert interests.seconds_to_expiry(0.0) is None
    assert interests.update(Interest(viewer="a", fps=12, width=200, slots=[3, 1]), 0.0)
    assert interests.request(0.0) == ViewerRequest(12, 200, (1, 3))


def test_several_viewers_get_the_most_that_any_of_them_asks_for() -> None:
    interests = ViewerRequests()
    interests.update(Interest(viewer="a", fps=5, width=640, slots=[1]), 0.0)
    interests.update(Interest(viewer="b", fps=20, width=100, slots=[2]), 0.0)
    assert interests.request(0.0) == ViewerRequest(20, 640, (1, 2))
    interests.update(Interest(viewer="c", fps=1), 0.0)
    assert interests.request(0.0) == ViewerRequest(20, 640, None)


def test_a_viewer_is_forgotten_after_three_seconds_of_silence_or_at_once_when_it_goes() -> None:
    interests = ViewerRequests()
    interests.update(Interest(viewer="a", fps=5), 10.0)
    interests.update(Interest(viewer="b", fps=9), 11.0)
    assert interests.seconds_to_expiry(11.0) == VIEWER_SECONDS - 1.0
    wanted_2 = interests.request(10.0 + VIEWER_SECONDS)
    assert wanted_2 is not None
    assert wanted_2.fps == 9
    interests.update(Interest(viewer="b", gone=True), 12.0)
    assert interests.request(12.0) is None


def test_a_viewer_counts_as_new_only_when_it_asks_for_other_slots() -> None:
    interests = ViewerRequests()
    assert interests.update(Interest(viewer="a", fps=5), 0.0)
    assert not interests.update(Interest(viewer="a", fps=9), 1.0)
    assert interests.update(Interest(viewer="a", fps=9, slots=[2]), 2.0)


def test_requests_and_the_number_of_viewers_are_kept_within_limits() -> None:
    interests = ViewerRequests()
    interests.update(Interest(viewer="a", fps=float("nan"), width=5, slots=[9999]), 0.0)
    assert interests.request(0.0) == ViewerRequest(1, 64, ())
    for number in range(1000):
        interests.update(Interest(viewer=str(number), fps=1e9, width=1 << 30), 0.0)
    assert interests.request(0.0) == ViewerRequest(30, 1280, None)
    assert len(interests._viewers) == MAX_VIEWERS


def header(**fields: object) -> dict[str, object]:
    return {"slot": 1, "width": 8, "height": 6, "at": 1.5, "slots": 2, "hud": {}, **fields}


def test_a_picture_is_scaled_to_the_width_wanted_and_never_enlarged() -> None:
    frame = parse_header(header(width=600, height=400))
    sizes = {
        300: (300, 200),
        900: (600, 400),
        306: (300, 200),
        400: (400, 267),
        250: (250, 167),
        20: (20, 13),
        200: (200, 133),
    }
    for wanted, expected in sizes.items():
        data, width, height = encode_jpeg(_with(frame, bytes(frame.size)), wanted, 1 << 20)
        assert (width, height) == Image.open(io.BytesIO(data)).size == expected


def test_pygames_own_bytes_become_the_same_picture() -> None:
    red, blue = bytes([200, 0, 0]), bytes([0, 0, 200, 255])
    usual = _with(parse_header(header()), red * 48)
    pygames = _with(parse_header(header(bgrx=True)), blue * 48)
    assert pygames.size == 8 * 6 * 4
    assert encode_jpeg(usual, 8, 1 << 20) == encode_jpeg(pygames, 8, 1 << 20)


def test_a_picture_too_large_for_a_message_is_made_worse_until_it_fits() -> None:
    frame = parse_header(header(width=1000, height=1000))
    noise = _with(frame, os.urandom(frame.size))
    data, width, _ = encode_jpeg(noise, 1000, 100_000)
    assert len(data) <= 100_000
    assert width < 1000


def test_a_frame_is_sent_with_its_overlay_and_its_error() -> None:
    frame = parse_header(
        header(hud={"step": 7, "keys": [{"key": "w", "action": "up"}], "unknown": 1}, trouble="no")
    )
    sent = encode_frame(_with(frame, bytes(frame.size)), "r", 2, 5, 320, 1 << 20)
    assert (sent.run_id, sent.attempt, sent.slot, sent.number, sent.at) == ("r", 2, 1, 5, 1_500_000)
    assert (sent.hud.step, sent.hud.keys[0].action, sent.trouble) == (7, "up", "no")


@pytest.mark.parametrize(
    "emitted",
    [
        header(slot=64),
        header(slot=-1),
        header(width=1 << 20, height=1 << 20),
        header(width=-5),
        header(hud=None),
        header(hud={"step": -1}),
        header(hud={"keys": [1]}),
        header(hud={"evaluated": {"number": "x"}}),
        header(hud={"evaluated": [1]}),
        header(at=float("inf")),
        header(slots="x"),
        [],
        None,
    ],
)
def test_what_is_no_frame_is_refused(emitted: object) -> None:
    with pytest.raises(NotAFrameError):
        parse_header(emitted)


async def test_frames_that_wait_are_bounded_for_each_slot_and_in_all(tmp_path: Path) -> None:
    link = NatsConnection(NatsAccount("nats://127.0.0.1:1"), "away")
    viewing = FramePublisher(link, "r", 1, ViewSocket(tmp_path), Progress)
    small = parse_header(header())
    for _ in range(100):
        viewing._take(_with(small, bytes(small.size)))
    assert list(viewing._waiting) == [small.slot]
    large = parse_header(header(width=2000, height=2000))
    for slot in range(64):
        viewing._take(replace(large, slot=slot, data=b""))
    assert 1 < len(viewing._waiting) < 64
    assert sum(frame.size for frame in viewing._waiting.values()) <= MAX_WAITING_BYTES


def _with(frame: RawFrame, data: bytes) -> RawFrame:
    return replace(frame, data=data)

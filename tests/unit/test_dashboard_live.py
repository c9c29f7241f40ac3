"""What browsers want to see, and who gets which frame."""

from __future__ import annotations

import json
import struct
import time
from typing import Any

import numpy as np
import pytest

from runspine.video.clip import decode
from runspine.video.timed import encode_timed
from runspine.wire.v1.live_pb2 import Frame, Hud
from services.dashboard.core.mosaic import Mosaic, columns_of
from services.dashboard.core.wishes import Wish, packed, together, wish_of
from services.dashboard.edges.live import NO_NATS, Hub, Seat
from services.dashboard.settings import DashboardSettings


def test_a_wish_is_brought_within_what_is_possible() -> None:
    assert wish_of({"fps": 1000, "width": 5, "slots": [3, 1]}) == Wish(30, 64, frozenset({1, 3}))
    assert wish_of({"fps": 0, "width": 99999, "slots": None}) == Wish(1, 1280)


@pytest.mark.parametrize(
    "said",
    [
        None,
        [],
        {},
        {"fps": "x", "width": 1},
        {"fps": float("nan"), "width": 100},
        {"fps": 5, "width": 100, "slots": [-1]},
        {"fps": 5, "width": 100, "slots": [64]},
        {"fps": 5, "width": 100, "slots": 3},
    ],
)
def test_anything_else_is_refused(said: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        wish_of(said)


def test_all_pages_together_want_the_most_of_each() -> None:
    some, others = Wish(5, 640, frozenset({1})), Wish(20, 100, frozenset({2}))
    wanted = together("v", [some, others])
    assert (wanted.fps, wanted.width, list(wanted.slots)) == (20, 640, [1, 2])
    assert list(together("v", [some, Wish()]).slots) == []
    assert together("v", []).gone


def test_a_frame_for_a_page_is_its_figures_and_its_picture() -> None:
    hud = Hud(step=7, episode_return=float("nan"), batch=2)
    data = packed(Frame(slot=3, slots=8, number=5, jpeg=b"picture", hud=hud))
    (length,) = struct.unpack_from("<I", data)
    beside = json.loads(data[4 : 4 + length])
    assert (beside["slot"], beside["slots"], beside["hud"]["batch"]) == (3, 8, 2)
    # A browser's JSON knows no NaN.
    assert beside["hud"]["episode_return"] is None
    assert data[4 + length :] == b"picture"


async def test_a_page_gets_the_newest_of_each_slot_that_it_looks_at() -> None:
    seat, now = Seat(), time.monotonic()
    seat.offer(0, b"nobody looks", now)
    seat.want(Wish(30, 320, frozenset({0, 2})))
    for slot, message in ((0, b"old"), (1, b"other"), (2, b"two"), (0, b"new")):
        seat.offer(slot, message, now, 30)
    assert seat.take() == [b"new", b"two"]
    assert seat.take() == []


async def test_a_page_that_wants_fewer_than_another_gets_fewer() -> None:
    seat, now = Seat(), time.monotonic()
    seat.want(Wish(5))
    taken = []
    for number in range(30):
        seat.offer(0, b"x", now + number / 30, 30)
        taken += seat.take()
    assert 5 <= len(taken) <= 8


async def test_a_page_that_falls_silent_gets_nothing_more() -> None:
    seat = Seat()
    seat.want(Wish())
    seat.offer(0, b"late", time.monotonic() + 4)
    assert seat.take() == []
    assert seat.wish(time.monotonic() + 4) is None


def test_without_nats_the_page_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNSPINE_NATS_URL", raising=False)
    assert Hub(DashboardSettings()).trouble == NO_NATS
    monkeypatch.setenv("RUNSPINE_NATS_URL", "nats://127.0.0.1:1")
    assert Hub(DashboardSettings()).trouble == "NATS at nats://127.0.0.1:1 cannot be reached"


@pytest.mark.parametrize(
    ("count", "columns"), [(1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (6, 3), (8, 4), (16, 4)]
)
def test_a_grid_has_no_gaps_where_that_can_be(count: int, columns: int) -> None:
    assert columns_of(count) == columns
    mosaic = Mosaic.of(count, 1440, 1440)
    assert mosaic.size[0] <= 1920
    assert len({mosaic.place(index) for index in range(count)}) == count


def test_a_clip_of_what_was_seen_lasts_as_long_as_it_did(tmp_path: Any) -> None:
    import av

    frames = [(at, np.full((33, 41, 3), at * 50, np.uint8)) for at in (0.0, 0.2, 2.0)]
    clip = encode_timed(frames, tmp_path / "clip.mp4", fps=15)
    assert (clip.frames, clip.width, clip.height) == (3, 40, 32)
    assert len(list(decode(clip.path))) == 3
    with av.open(str(clip.path)) as container:
        times = [float(frame.time or 0) for frame in container.decode(video=0)]
    assert times == pytest.approx([0.0, 0.2, 2.0], abs=0.01)

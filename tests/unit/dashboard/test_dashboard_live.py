"""Live view requests of browsers, and the frames that each browser receives."""

from __future__ import annotations

import json
import struct
import time
from typing import Any

import numpy as np
import pytest

from runspine.services.dashboard.core.frame_grid import FrameGrid, grid_columns
from runspine.services.dashboard.core.view_request import (
    BrowserRequest,
    combined_interest,
    pack_frame,
    parse_browser_request,
)
from runspine.services.dashboard.edges.live_hub import NO_NATS, BrowserViewer, LiveHub
from runspine.services.dashboard.settings import DashboardSettings
from runspine.video.clip import decode
from runspine.video.timed import encode_timed
from runspine.wire.v1.live_pb2 import EvaluatedBatch, Frame, Hud


def test_a_request_is_clamped_to_the_limits() -> None:
    assert parse_browser_request({"fps": 1000, "width": 5, "slots": [3, 1]}) == BrowserRequest(
        30, 64, frozenset({1, 3})
    )
    assert parse_browser_request({"fps": 0, "width": 99999, "slots": None}) == BrowserRequest(1, 1280)


@pytest.mark.parametrize(
    "message",
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
def test_anything_else_is_refused(message: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        parse_browser_request(message)


def test_all_pages_together_want_the_most_of_each() -> None:
    some, others = BrowserRequest(5, 640, frozenset({1})), BrowserRequest(20, 100, frozenset({2}))
    wanted = combined_interest("v", [some, others])
    assert (wanted.fps, wanted.width, list(wanted.slots)) == (20, 640, [1, 2])
    assert list(combined_interest("v", [some, BrowserRequest()]).slots) == []
    assert combined_interest("v", []).gone


def test_a_frame_for_a_page_is_its_figures_and_its_picture() -> None:
    evaluated = EvaluatedBatch(number=1, episodes=50, mean=112.25, minimum=float("-inf"), maximum=142.5)
    hud = Hud(step=7, episode_return=float("nan"), batch=2, evaluated=evaluated)
    data = pack_frame(Frame(slot=3, slots=8, number=5, jpeg=b"picture", hud=hud))
    (length,) = struct.unpack_from("<I", data)
    header = json.loads(data[4 : 4 + length])
    assert (header["slot"], header["slots"], header["hud"]["batch"]) == (3, 8, 2)
    # A browser's JSON knows no NaN.
    assert header["hud"]["episode_return"] is None
    figures = {"avg": 112.25, "min": None, "max": 142.5}
    assert header["hud"]["evaluated"] == {"number": 1, "episodes": 50, **figures}
    assert data[4 + length :] == b"picture"


async def test_a_page_gets_the_newest_of_each_slot_that_it_looks_at() -> None:
    viewer, now = BrowserViewer(), time.monotonic()
    viewer.offer(0, b"nobody looks", now)
    viewer.set_request(BrowserRequest(30, 320, frozenset({0, 2})))
    for slot, message in ((0, b"old"), (1, b"other"), (2, b"two"), (0, b"new")):
        viewer.offer(slot, message, now, 30)
    assert viewer.take() == [b"new", b"two"]
    assert viewer.take() == []


async def test_a_page_that_wants_fewer_than_another_gets_fewer() -> None:
    viewer, now = BrowserViewer(), time.monotonic()
    viewer.set_request(BrowserRequest(5))
    taken = []
    for number in range(30):
        viewer.offer(0, b"x", now + number / 30, 30)
        taken += viewer.take()
    assert 5 <= len(taken) <= 8


async def test_a_page_that_falls_silent_gets_nothing_more() -> None:
    viewer = BrowserViewer()
    viewer.set_request(BrowserRequest())
    viewer.offer(0, b"late", time.monotonic() + 4)
    assert viewer.take() == []
    assert viewer.request(time.monotonic() + 4) is None


def test_without_nats_the_message_names_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RUNSPINE_NATS_URL", raising=False)
    assert LiveHub(DashboardSettings()).trouble == NO_NATS
    monkeypatch.setenv("RUNSPINE_NATS_URL", "nats://127.0.0.1:1")
    assert LiveHub(DashboardSettings()).trouble == "NATS at nats://127.0.0.1:1 cannot be reached"


@pytest.mark.parametrize(
    ("count", "columns"), [(1, 1), (2, 2), (3, 3), (4, 2), (5, 3), (6, 3), (8, 4), (16, 4)]
)
def test_a_grid_has_no_gaps_where_that_can_be(count: int, columns: int) -> None:
    assert grid_columns(count) == columns
    grid = FrameGrid.of(count, 1440, 1440)
    assert grid.size[0] <= 1920
    assert len({grid.place(index) for index in range(count)}) == count


def test_a_clip_of_what_was_seen_lasts_as_long_as_it_did(tmp_path: Any) -> None:
    import av

    frames = [(at, np.full((33, 41, 3), at * 50, np.uint8)) for at in (0.0, 0.2, 2.0)]
    clip = encode_timed(frames, tmp_path / "clip.mp4", fps=15)
    assert (clip.frames, clip.width, clip.height) == (3, 40, 32)
    assert len(list(decode(clip.path))) == 3
    with av.open(str(clip.path)) as container:
        times = [float(frame.time or 0) for frame in container.decode(video=0)]
    assert times == pytest.approx([0.0, 0.2, 2.0], abs=0.01)

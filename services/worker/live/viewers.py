"""Viewers of a run, and the combined request of all of them. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from runspine.domain.defaults import DEFAULT_WIDTH, MAX_FPS, MAX_SLOTS, MAX_WIDTH, MIN_FPS, MIN_WIDTH
from runspine.wire.v1.live_pb2 import Interest

# A viewer is forgotten this long after its last message.
VIEWER_SECONDS = 3.0
MAX_VIEWERS = 256


class ViewerRequest(NamedTuple):
    """Frame rate, width and slots that a viewer requests."""

    fps: float
    width: int
    # All when None.
    slots: tuple[int, ...] | None

    def as_json(self) -> dict[str, Any]:
        """As the trainer receives it."""
        return {"fps": self.fps, "width": self.width, "slots": self.slots}


class ViewerRequests:
    """The requests of all viewers. Times are of a monotonic clock."""

    def __init__(self) -> None:
        self._viewers: dict[str, tuple[ViewerRequest, float]] = {}

    def update(self, interest: Interest, now: float) -> bool:
        """Store a viewer's request; whether it is new or has other slots than before."""
        self._forget(now)
        before = self._viewers.pop(interest.viewer, None)
        if interest.gone or (before is None and len(self._viewers) >= MAX_VIEWERS):
            return False
        request = clamp_request(interest)
        self._viewers[interest.viewer] = request, now + VIEWER_SECONDS
        return before is None or before[0].slots != request.slots

    def request(self, now: float) -> ViewerRequest | None:
        """The maximum of all requests; None without viewers."""
        self._forget(now)
        requests = [request for request, _ in self._viewers.values()]
        if not requests:
            return None
        some = [request.slots for request in requests if request.slots is not None]
        slots = (
            tuple(sorted({slot for each in some for slot in each})) if len(some) == len(requests) else None
        )
        fps, width = max(each.fps for each in requests), max(each.width for each in requests)
        return ViewerRequest(fps, width, slots)

    def seconds_to_expiry(self, now: float) -> float | None:
        """Seconds until the next viewer expires; None without viewers."""
        ends = [end for _, end in self._viewers.values()]
        return max(0.0, min(ends) - now) if ends else None

    def _forget(self, now: float) -> None:
        self._viewers = {name: kept for name, kept in self._viewers.items() if kept[1] > now}


def clamp_request(interest: Interest) -> ViewerRequest:
    """The request within the limits. NaN counts as the minimum."""
    fps = min(MAX_FPS, interest.fps) if interest.fps > MIN_FPS else MIN_FPS
    width = min(MAX_WIDTH, max(MIN_WIDTH, interest.width or DEFAULT_WIDTH))
    slots = tuple(sorted({slot for slot in interest.slots if slot < MAX_SLOTS}))
    return ViewerRequest(fps, width, slots if interest.slots else None)

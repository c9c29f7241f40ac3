"""Several addresses of one service: a client stays with one and changes to the next when it is away."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runspine.errors import InvalidError

# How long one address may be silent before a call is repeated at the next; the last one has all the time.
SILENT_SECONDS = 2.0
# The same for streams, which have no deadline: a peer that does not answer a ping is left. Only where there
# is another address: a service of an earlier release closes connections that ask so often.
KEEPALIVE = [
    ("grpc.keepalive_time_ms", 1000),
    ("grpc.http2.ping_timeout_ms", 1000),
    ("grpc.keepalive_timeout_ms", 1000),
    ("grpc.http2.max_pings_without_data", 0),
]


def split_addresses(text: str) -> tuple[str, ...]:
    """The addresses in a text, separated by commas. Raises InvalidError when there is none."""
    found = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not found:
        raise InvalidError(f"{text!r} names no address: give host:port, several separated by commas")
    return found


class Siblings:
    """A channel and a stub for each address. Every call begins with the one that answered last."""

    def __init__(self, text: str, open_channel: Callable[[str, Any], Any], make_stub: Any) -> None:
        self.addresses = split_addresses(text)
        more = KEEPALIVE if len(self.addresses) > 1 else []
        self.channels = [open_channel(address, more) for address in self.addresses]
        self.stubs: list[Any] = [make_stub(channel) for channel in self.channels]
        self._current = 0

    def __len__(self) -> int:
        return len(self.addresses)

    @property
    def address(self) -> str:
        """Where the next call goes first."""
        return self.addresses[self._current]

    def choose(self) -> tuple[int, Any]:
        """The stub to call, and its number for `leave`."""
        return self._current, self.stubs[self._current]

    def seconds(self, tried: int, deadline: float) -> float:
        """How long a call may take that has been tried at so many addresses."""
        return min(SILENT_SECONDS, deadline) if tried < len(self) - 1 else deadline

    def leave(self, number: int) -> None:
        """This one does not answer: the next call goes to the one after it."""
        if number == self._current:
            self._current = (number + 1) % len(self.addresses)

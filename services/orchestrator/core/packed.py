"""Messages by key, of which those that seldom change are kept in their wire form. Pure.

A run takes some kilobytes as a message of Python and some hundred bytes in its wire form, from which it is
read again when somebody asks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, MutableMapping
from typing import Generic, TypeVar

from google.protobuf.message import Message

M = TypeVar("M", bound=Message)

# Messages that were put away most recently stay as they are: they are often read or changed again.
MAX_RECENT = 1_000


class PackedMessages(MutableMapping[str, M], Generic[M]):
    """A mapping in the order of insertion. What it returns for a key that was put away is a copy."""

    def __init__(self, parse: Callable[[bytes], M]) -> None:
        self._parse = parse
        self._kept: dict[str, M | bytes] = {}
        self._recent: OrderedDict[str, None] = OrderedDict()

    def __getitem__(self, key: str) -> M:
        kept = self._kept[key]
        return self._parse(kept) if isinstance(kept, bytes) else kept

    def __setitem__(self, key: str, message: M) -> None:
        self._kept[key] = message

    def __delitem__(self, key: str) -> None:
        del self._kept[key]
        self._recent.pop(key, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, key: object) -> bool:
        return key in self._kept

    def edit(self, key: str) -> M | None:
        """The message itself, to be changed in place."""
        kept = self._kept.get(key)
        if isinstance(kept, bytes):
            kept = self._kept[key] = self._parse(kept)
        return kept

    def put_away(self, key: str) -> None:
        """The message is not expected to change: it is packed once others have followed."""
        self._recent[key] = None
        self._recent.move_to_end(key)
        if len(self._recent) > MAX_RECENT:
            self.pack(self._recent.popitem(last=False)[0])

    def keep(self, key: str) -> None:
        """The message is expected to change."""
        self._recent.pop(key, None)

    def pack(self, key: str) -> None:
        kept = self._kept[key]
        if not isinstance(kept, bytes):
            self._kept[key] = kept.SerializeToString()

    def put_packed(self, key: str, data: bytes) -> None:
        self._kept[key] = data

    def capture(self) -> list[tuple[str, bytes]]:
        """Every key with its message in wire form, as it is now."""
        return [
            (key, kept if isinstance(kept, bytes) else kept.SerializeToString())
            for key, kept in self._kept.items()
        ]

"""A session of the page: a person between login and logout, and all that is open in their name."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from runspine.services.dashboard.edges.login.person import Person

# Key of a request's scope; the guard sets it.
SCOPE_KEY = "runspine.session"
LOGGED_OUT = "you have logged out: log in again"


@dataclass(slots=True, eq=False)
class Session:
    """One login. What is open in its name registers itself and is closed when the session ends."""

    # The name of its record: a digest of the identifier in the cookie.
    key: str
    person: Person
    created: float
    seen: float
    over: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""
    _closers: dict[object, Callable[[], object]] = field(default_factory=dict)

    def end(self, why: str) -> None:
        """Close everything that is open in its name. A second end changes nothing."""
        if self.over.is_set():
            return
        self.why = why
        self.over.set()
        closers, self._closers = list(self._closers.values()), {}
        for close in closers:
            close()

    def on_end(self, close: Callable[[], object]) -> Callable[[], None]:
        """Call `close` when the session ends, at once if it has; returns how to forget it."""
        if self.over.is_set():
            close()
            return lambda: None
        mark = object()
        self._closers[mark] = close

        def forget() -> None:
            self._closers.pop(mark, None)

        return forget

    @contextmanager
    def holding(self, close: Callable[[], object]) -> Iterator[None]:
        """The same for the length of a block."""
        forget = self.on_end(close)
        try:
            yield
        finally:
            forget()

    @property
    def has_open(self) -> bool:
        """Whether a page, socket or request is open."""
        return bool(self._closers)


def session_of(scope: Mapping[str, Any]) -> Session:
    """The session of a request or web socket that the guard has let through."""
    found: Session = scope[SCOPE_KEY]
    return found

"""Wraps methods of a library: the call itself, and its record."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

Then = Callable[..., None]
# Attribute of the library's run that holds its record.
RECORD = "_runspine_record"


def after(call: Callable[..., Any], then: Then) -> Callable[..., Any]:
    """The call, and then its record, with the same arguments."""

    @functools.wraps(call)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = call(self, *args, **kwargs)
        attempt(self, then, *args, **kwargs)
        return result

    return called


def before(call: Callable[..., Any], first: Then) -> Callable[..., Any]:
    """The record, and then the call, which may change what it is given."""

    @functools.wraps(call)
    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        attempt(self, first, *args, **kwargs)
        return call(self, *args, **kwargs)

    return called


def attempt(run: Any, then: Then, *args: Any, **kwargs: Any) -> None:
    """Record a call of a run that has a record; a failure is a line of the run's log."""
    found = getattr(run, "__dict__", {}).get(RECORD)
    if found is not None:
        try:
            then(found, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - values of any kind; the program goes on
            found.tracked.note(f"{then.__name__.strip('_')}: {type(error).__name__}: {error}")


def attach(run: Any, record: Any) -> Any:
    """Give a run its record."""
    object.__setattr__(run, RECORD, record)
    return record

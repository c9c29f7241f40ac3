"""An idempotency key: the first submit with it decides for which run it stands, for ever. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from tests.histories.calls import Call

# A run that was made by a submit without a reply: nobody has seen its id yet.
UNSEEN = "?"


def step(made: str | None, call: Call, _: str = "") -> Iterator[str]:
    """The run of the key after the call, or none when the reply cannot be."""
    if call.outcome == "unknown":
        if made is None:
            yield UNSEEN
        return
    found = next(iter(call.seen))
    if made is None if call.created else made in (UNSEEN, found):
        yield found

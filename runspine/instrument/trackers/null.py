"""Objects and modules that accept every use and do nothing, for parts of a tracker that record nothing."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Any


class NullObject:
    """Accepts every call and attribute, and does nothing."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, *_: Any, **__: Any) -> NullObject:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __enter__(self) -> NullObject:
        return self

    def __exit__(self, *_: object) -> None: ...

    def __iter__(self) -> Iterator[Any]:
        return iter(())

    def __bool__(self) -> bool:
        return False


class NullModule(ModuleType):
    """A module of a stand-in: exceptions by their names, everything else does nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = type(name, (Exception,), {}) if name.endswith(("Error", "Exception")) else NullObject()
        setattr(self, name, found)
        return found


class NeedsLibraryError(RuntimeError):
    """What a stand-in cannot answer: it has nothing that was stored elsewhere."""

    def __init__(self, tracker: str, call: str) -> None:
        super().__init__(
            f"{tracker}.{call} needs the real {tracker}: install it, and name it in capture.mirror of the run"
            " (its account in secrets)"
        )

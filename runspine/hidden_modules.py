"""Import a package without the modules that it loads for features which are not used here."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any


@contextmanager
def hidden(*names: str, stand_in: ModuleType | None = None) -> Iterator[None]:
    """Within the context, modules that are not imported yet cannot be, or are the stand-in."""
    modules: dict[str, Any] = sys.modules
    absent = [name for name in names if name not in modules]
    modules.update(dict.fromkeys(absent, stand_in))
    try:
        yield
    finally:
        for name in absent:
            del modules[name]

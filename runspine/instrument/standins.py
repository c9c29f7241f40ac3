"""Import finder for stand-in modules."""

from __future__ import annotations

import importlib.machinery
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType

Make = Callable[[str], ModuleType]


class StandInFinder(MetaPathFinder):
    """First in `sys.meta_path` it replaces a module, last it serves one that is not installed."""

    def __init__(self, modules: Mapping[str, Make]) -> None:
        self._modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        make = self._modules.get(fullname)
        if make is None:
            return None
        return importlib.machinery.ModuleSpec(fullname, StandInLoader(make), is_package=True)


class StandInLoader(Loader):
    def __init__(self, make: Make) -> None:
        self._make = make

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return self._make(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to do: the module is complete when created."""

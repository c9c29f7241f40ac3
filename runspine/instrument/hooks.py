"""Patches modules as they are imported, and those that are imported already.

Nothing is imported that the script does not import itself.
"""

from __future__ import annotations

import importlib.machinery
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from types import ModuleType
from typing import Any

Patch = Callable[[Any], None]


class PatchingFinder(MetaPathFinder):
    """Finds modules through the other finders, and patches the listed ones after they have run."""

    def __init__(self, patches: Mapping[str, Patch]) -> None:
        self._patches = patches

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        patch = self._patches.get(fullname)
        if patch is None:
            return None
        for finder in sys.meta_path:
            if finder is self:
                continue
            spec = finder.find_spec(fullname, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = PatchingLoader(spec.loader, patch)
                return spec
        return None


class PatchingLoader(Loader):
    """Wraps a loader and applies a patch after it."""

    def __init__(self, inner: Any, patch: Patch) -> None:
        self._inner = inner
        self._patch = patch

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._inner.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        # Restore the module's own loader: packages use it for their data files.
        module.__loader__ = self._inner
        if module.__spec__ is not None:
            module.__spec__.loader = self._inner
        self._inner.exec_module(module)
        apply(module, self._patch)


def install(patches: Mapping[str, Patch]) -> None:
    # Waits to do the same (`startup/sitecustomize.py`), and must not do it twice.
    sys.meta_path[:] = [finder for finder in sys.meta_path if not hasattr(finder, "waits_for_runspine")]
    for name, patch in patches.items():
        if name in sys.modules:
            apply(sys.modules[name], patch)
    sys.meta_path.insert(0, PatchingFinder(patches))


def apply(module: ModuleType, patch: Patch) -> None:
    """Apply a patch. A failure with an unknown version loses recording, not the run."""
    try:
        patch(module)
    except Exception as error:  # noqa: BLE001 - a third-party module of any version
        sys.stderr.write(f"runspine: {module.__name__} is not recorded: {type(error).__name__}: {error}\n")

"""Makes the package `runspine` importable from this file's folder, and nothing else of that folder.

A runner's virtualenv need not have Runspine, and must not see the worker's packages. After this file is
run, by path or by import, `runspine` can be imported. Standard library only.
"""

import importlib.util
import os
import sys

FILE = os.path.abspath(__file__)


def make_importable() -> None:
    if "runspine" in sys.modules:
        return
    folder = os.path.dirname(os.path.dirname(FILE))
    spec = importlib.util.spec_from_file_location(
        "runspine", os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["runspine"] = module
    spec.loader.exec_module(module)


make_importable()

"""Makes the package `runspine` importable from where this file lies, and nothing that lies beside it.

A runner's virtualenv need not have Runspine, and must not see the packages of the worker's. Whoever runs
this file, by path or by import, can import `runspine` afterwards. Standard library alone.
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

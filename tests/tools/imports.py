"""Imports of test modules: `python -m tests.tools.imports` fails when one test module imports another."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from tests.kit.paths import ROOT

MAX_MODULES = 25
# Code that tests share, and packages whose programs have tests next to them.
SHARED = (
    "tests.kit",
    "tests.tools",
    "tests.drift",
    "tests.fuzz",
    "tests.chaos.cluster",
    "tests.chaos.mixed",
    "tests.histories",
    "tests.model",
    "tests.simulation",
)


def main() -> int:
    problems = []
    for path in sorted((ROOT / "tests").rglob("*.py")):
        where = path.relative_to(ROOT)
        if where.parts[1] != "fixtures":
            problems += [f"{where}:{line}: imports {module}" for line, module in forbidden(path.read_text())]
    problems += [
        f"{folder}: {count} modules, more than {MAX_MODULES}"
        for folder, count in folders(ROOT / "tests")
        if count > MAX_MODULES
    ]
    print("\n".join(problems) or "test modules import only what is shared")
    return bool(problems)


def forbidden(source: str) -> list[tuple[int, str]]:
    """Imports of test modules, or of helpers outside the shared packages."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
            modules += [f"{node.module}.{name.name}" for name in node.names if name.name.startswith("test_")]
        elif isinstance(node, ast.Import):
            modules = [name.name for name in node.names]
        else:
            continue
        found += [(node.lineno, module) for module in modules if not _allowed(module)]
    return found


def _allowed(module: str) -> bool:
    if module.split(".")[0] != "tests":
        return True
    is_test = module.rpartition(".")[2].startswith("test_")
    return not is_test and any(module == name or module.startswith(f"{name}.") for name in SHARED)


def folders(tests: Path) -> list[tuple[str, int]]:
    """Each folder with the number of its modules."""
    paths = [path.parent for path in tests.rglob("*.py") if path.name != "__init__.py"]
    return [(str(folder.relative_to(tests.parent)), paths.count(folder)) for folder in sorted(set(paths))]


if __name__ == "__main__":
    sys.exit(main())

"""`python -m tests.tools.walks`: every path and module that the docs name exists; part of `make lint`."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
# Each walk of docs/architecture.md, and how many files it may have.
WALKS = {
    "A submit, from the command to COMPLETED": 35,
    "A step, from env.step() to a chart": 40,
}
STEP = re.compile(r"^\d+\. `([^`]+)` — \S")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
# A path in backticks below one of these folders; names to be replaced by the reader are left out.
PATH = re.compile(r"`((?:runspine|services|deploy|proto|tests|examples|docs)/[^`\s]*)`")
PLACEHOLDER = re.compile(r"[<>{}*…]|\.\.\.|\bNAME\b|\bX\b")
TEST = re.compile(r"`(test_\w+\.py)`")
MODULE = re.compile(r"\bpython3? -m ((?:runspine|tests|services|bench)(?:\.\w+)*)")


def walk_faults(text: str) -> list[str]:
    """What is wrong with the two walks: too long, missing, a path that is not there."""
    faults = []
    for title, bound in WALKS.items():
        part = text.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
        paths = [found[1] for line in part.splitlines() if (found := STEP.match(line))]
        if not paths:
            faults.append(f"docs/architecture.md: no walk under '## {title}'")
        if len(paths) > bound:
            faults.append(
                f"docs/architecture.md: '{title}' has {len(paths)} files, at most {bound} are allowed"
            )
        if len(set(paths)) < len(paths):
            faults.append(f"docs/architecture.md: '{title}' names a file twice")
        faults += [
            f"docs/architecture.md: {path} does not exist" for path in paths if not (ROOT / path).is_file()
        ]
    return faults


def path_faults(page: Path) -> list[str]:
    """Paths in backticks and modules after `python -m` that are not there."""
    text, name = page.read_text(), page.relative_to(ROOT)
    faults = []
    for found in PATH.finditer(FENCE.sub("", text)):
        path = found[1].partition("#")[0].partition(":")[0]
        if not PLACEHOLDER.search(path) and not (ROOT / path).exists():
            faults.append(f"{name}: {path} does not exist")
    for found in TEST.finditer(text):
        if not any((ROOT / "tests").rglob(found[1])):
            faults.append(f"{name}: there is no test {found[1]}")
    for found in MODULE.finditer(text):
        if PLACEHOLDER.search(found[1]):
            continue
        place = ROOT / found[1].replace(".", "/")
        runs = place.with_suffix(".py").is_file() or (place / "__main__.py").is_file()
        # The services are a part of the package `runspine` (ADR 25).
        if not runs or found[1].startswith("services"):
            faults.append(f"{name}: python -m {found[1]} cannot be run")
    return faults


def main() -> int:
    # The changelog names what there was.
    top = [page for page in sorted(ROOT.glob("*.md")) if page.name != "CHANGELOG.md"]
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *top]
    pages += sorted((ROOT / "services").rglob("README.md")) + sorted((ROOT / "deploy").rglob("*.md"))
    faults = walk_faults(ARCHITECTURE.read_text())
    for page in pages:
        faults += path_faults(page)
    print("\n".join(dict.fromkeys(faults)) or f"{len(pages)} pages name only what exists")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

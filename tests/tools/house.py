"""`python -m tests.tools.house`: the shape of the code in figures, each with a bound; part of `make lint`."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
GENERATED = ("runspine/wire/", "services/dashboard/static/app/", "tests/replay/0")
VOCABULARY = "docs/vocabulary.md"
PROSE = (".asl", ".css", ".js", ".md", ".proto", ".py", ".toml", ".yaml", ".yml")
BROAD = {"Exception", "BaseException"}
# Between backticks, where a backslash keeps one that belongs to it.
FORM = r"`((?:\\`|[^`])+?)(?<!\\)`"
WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


@dataclass(frozen=True)
class Source:
    """One Python file."""

    path: str
    text: str
    tree: ast.Module

    @property
    def is_product(self) -> bool:
        return self.path.startswith(("runspine/", "services/"))

    @property
    def lines(self) -> int:
        return self.text.count("\n")


@dataclass(frozen=True)
class Figure:
    """One figure of the house: what was found, its bound, and the worst places."""

    name: str
    found: float
    bound: float
    worst: list[str]

    @property
    def holds(self) -> bool:
        return self.found <= self.bound


def tracked() -> list[str]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()
    return [path for path in listed if not path.startswith(GENERATED) and _is_plain(ROOT / path)]


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()


def read_sources(paths: list[str]) -> list[Source]:
    texts = {path: (ROOT / path).read_text() for path in paths if path.endswith(".py")}
    return [Source(path, text, ast.parse(text)) for path, text in texts.items()]


def modules_per_folder(sources: list[Source]) -> Figure:
    folders = Counter(str(Path(s.path).parent) for s in sources if not s.path.endswith("__init__.py"))
    return Figure("modules in a folder", max(folders.values()), 25, _top(folders))


def function_lines(sources: list[Source]) -> Figure:
    lengths = {
        f"{source.path}:{node.lineno} {node.name}": (node.end_lineno or 0) - node.lineno + 1
        for source in sources
        if source.is_product
        for node in ast.walk(source.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    ordered = sorted(lengths.values())
    return Figure("lines of a function, p95", ordered[int(len(ordered) * 0.95)], 30, _top(Counter(lengths)))


def file_lines(sources: list[Source]) -> Figure:
    lengths = Counter({source.path: source.lines for source in sources})
    return Figure("lines of a file", max(lengths.values()), 400, _top(lengths))


def shared_class_names(sources: list[Source]) -> Figure:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for source in sources:
        if source.is_product:
            for node in source.tree.body:
                if isinstance(node, ast.ClassDef):
                    places[node.name].append(source.path)
    shared = Counter({name: len(paths) for name, paths in places.items() if len(paths) > 1})
    return Figure("class names used for two things", len(shared), 15, _top(shared, 15))


def broad_excepts(sources: list[Source]) -> Figure:
    product = [source for source in sources if source.is_product]
    found = Counter({source.path: sum(map(_is_broad, ast.walk(source.tree))) for source in product})
    rate = 1000 * sum(found.values()) / sum(source.lines for source in product)
    return Figure("broad excepts per 1,000 lines", round(rate, 2), 0.6, _top(found))


def _is_broad(node: ast.AST) -> bool:
    if not isinstance(node, ast.ExceptHandler):
        return False
    return node.type is None or (isinstance(node.type, ast.Name) and node.type.id in BROAD)


def first_cells(heading: str) -> list[str]:
    """The first column of the table under a heading of the vocabulary."""
    text = (ROOT / VOCABULARY).read_text()
    section = text[text.index(f"## {heading}") :].partition("\n## ")[0]
    rows = [row for row in section.splitlines() if row.startswith("| ")]
    return [row.split("|")[1].strip() for row in rows[1:]]


def banned_words() -> frozenset[str]:
    return frozenset(
        word.strip() for cell in first_cells("Words that are not used") for word in cell.split(",")
    )


def names_that_stay() -> re.Pattern[str]:
    """Exact forms that the check passes over."""
    forms = [form for cell in first_cells("Names that stay") for form in re.findall(FORM, cell)]
    return re.compile("|".join(re.escape(form.replace("\\`", "`")) for form in forms))


def words_not_used(paths: list[str]) -> Figure:
    banned, staying = banned_words(), names_that_stay()
    found: Counter[str] = Counter()
    for path in paths:
        if path.endswith(PROSE) and path != VOCABULARY:
            for number, word in _words(ROOT / path, staying):
                if word in banned:
                    found[f"{path}:{number} {word}"] += 1
    return Figure("words outside the vocabulary", sum(found.values()), 0, _top(found, 20))


def _words(path: Path, staying: re.Pattern[str]) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(path.read_text().splitlines(), 1):
        for word in WORD.findall(staying.sub(" ", line)):
            yield number, word.lower()


def _top(counted: Counter[str], most: int = 3) -> list[str]:
    return [f"{count:>5}  {name}" for name, count in counted.most_common(most) if count]


def main(out: Callable[[str], object] = print) -> int:
    paths = tracked()
    sources = read_sources(paths)
    figures = [
        modules_per_folder(sources),
        function_lines(sources),
        file_lines(sources),
        shared_class_names(sources),
        broad_excepts(sources),
        words_not_used(paths),
    ]
    for figure in figures:
        mark = "ok " if figure.holds else "NO "
        out(f"{mark} {figure.name}: {figure.found:g} (at most {figure.bound:g})")
        if not figure.holds or "-v" in sys.argv:
            out("\n".join(f"      {line}" for line in figure.worst))
    return 0 if all(figure.holds for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())

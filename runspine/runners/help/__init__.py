"""Help on algorithms: one Markdown text for each, shown by the command line, the page and the docs.

A text lies in the folder of its runner, under the algorithm's name. Where a checkout brings the algorithms,
its first line names those that it applies to, as patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path

from runspine.wire.v1.runner_pb2 import AlgoInfo, RunnerInfo

FOLDER = Path(__file__).parent
APPLIES = "applies: "
# Composed texts that are kept; a checkout has some fifty scripts.
MAX_TEXTS = 256
PARAMETERS = "**Parameters**"
# The parameters at the head of a list item, then what is stated about them.
ITEM = re.compile(r"- (`\w+`(?:(?:, | and )`\w+`)*)(.*)")
NAME = re.compile(r"`(\w+)`")
# A setting in a table.
SETTING = re.compile(r"`([a-z]\w*): [^`]+`")
# Fields of a run file that texts name as settings.
SPEC_FIELDS = frozenset({"env_kwargs", "gpus", "seeds"})
AS_THEY_COME = "as they come"


@dataclass(frozen=True, slots=True)
class HelpText:
    """One file: the algorithms that it is about, and its text."""

    name: str
    patterns: tuple[str, ...]
    text: str

    def fit(self, algo: str) -> int:
        """How closely it is about an algorithm: literal characters of the pattern, -1 for not at all."""
        literal = [len(pattern.replace("*", "")) for pattern in self.patterns if fnmatchcase(algo, pattern)]
        return max(literal, default=-1)


def algorithm_help(runner: str, algo: AlgoInfo) -> str:
    """What an algorithm is for and how to set it, without parameters that it lacks; empty if unknown."""
    return algo.help or _composed(runner, algo.name, tuple(param.name for param in algo.params))


def with_help(info: RunnerInfo) -> RunnerInfo:
    """The runner with the help of each algorithm."""
    full = RunnerInfo()
    full.CopyFrom(info)
    for algo in full.algos:
        algo.help = algorithm_help(info.name, algo)
    return full


@cache
def help_texts(runner: str) -> tuple[HelpText, ...]:
    """All texts of a runner, by name; none for one that is not ours."""
    folder = FOLDER / runner
    if not runner.isidentifier() or not folder.is_dir():
        return ()
    return tuple(_read(path) for path in sorted(folder.glob("*.md")))


def _read(path: Path) -> HelpText:
    text = path.read_text(encoding="utf-8")
    if not text.startswith(APPLIES):
        return HelpText(path.stem, (path.stem,), text)
    first, _, rest = text.partition("\n")
    return HelpText(path.stem, tuple(first.removeprefix(APPLIES).split(", ")), rest.lstrip())


@lru_cache(maxsize=MAX_TEXTS)
def _composed(runner: str, algo: str, params: tuple[str, ...]) -> str:
    best = max(help_texts(runner), key=lambda each: each.fit(algo), default=None)
    if best is None or best.fit(algo) < 0:
        return ""
    return "\n".join(_lines(best.text, frozenset(params)))


def _lines(text: str, params: frozenset[str]) -> Iterator[str]:
    """The text without parameters and settings that the algorithm does not have."""
    section = ""
    for line in text.splitlines():
        if line.startswith("**"):
            section = line
        if line.startswith("| "):
            yield _row(line, params)
        elif section == PARAMETERS and (item := ITEM.fullmatch(line)):
            kept = [name for name in NAME.findall(item[1]) if name in params]
            if kept:
                yield f"- {', '.join(f'`{name}`' for name in kept)}{item[2]}"
        else:
            yield line


def _row(line: str, params: frozenset[str]) -> str:
    """A row of the table; its last cell is a list of settings and remarks."""
    before, _, settings = line.removesuffix(" |").rpartition(" | ")
    kept = [each for each in settings.split(", ") if _is_known(each, params)]
    return f"{before} | {', '.join(kept) or AS_THEY_COME} |"


def _is_known(entry: str, params: frozenset[str]) -> bool:
    return all(name in params | SPEC_FIELDS for name in SETTING.findall(entry))

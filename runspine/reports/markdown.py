"""A subset of Markdown as HTML: headings, paragraphs, lists, tables, code, emphasis, links. Pure.

Everything is escaped, and links lead to http, https or mail alone: a report may quote text of anybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape

_HEADING = re.compile(r"(#{1,6})\s+(.*)")
_ITEM = re.compile(r"\s*(?:[-*+]|(\d+)[.)])\s+(.*)")
_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[([^\]]+)\]\((https?://[^\s)]+|mailto:[^\s)]+)\)")
_STRONG = re.compile(r"\*\*([^*]+)\*\*")
_EMPHASIS = re.compile(r"(?<![\w*])[*_]([^*_]+)[*_](?![\w*])")
_RULE = re.compile(r"\s*(\|?\s*:?-{3,}:?\s*)+\|?\s*")
FENCE = "```"


def to_html(lines: Iterable[str]) -> str:
    """The lines of a part of a document."""
    out: list[str] = []
    paragraph: list[str] = []
    waiting = list(lines)

    def close() -> None:
        if paragraph:
            out.append(f"<p>{inline(' '.join(paragraph))}</p>")
            paragraph.clear()

    while waiting:
        line = waiting.pop(0)
        heading = _HEADING.fullmatch(line)
        if line.startswith(FENCE):
            close()
            out.append(_code(waiting))
        elif heading:
            close()
            level = len(heading[1])
            out.append(f"<h{level}>{inline(heading[2])}</h{level}>")
        elif _ITEM.match(line):
            close()
            out.append(_list([line, *_taken(waiting, _ITEM)]))
        elif line.lstrip().startswith("|"):
            close()
            out.append(_table([line, *_taken(waiting, re.compile(r"\s*\|"))]))
        elif line.strip():
            paragraph.append(line.strip())
        else:
            close()
    close()
    return "\n".join(out)


def inline(text: str) -> str:
    """Code, links and emphasis in a line; nothing inside code is read."""
    parts = _CODE.split(text)
    return "".join(
        f"<code>{escape(part)}</code>" if index % 2 else _marked(part) for index, part in enumerate(parts)
    )


def _marked(text: str) -> str:
    found = _LINK.sub(r'<a href="\2" rel="noreferrer">\1</a>', escape(text, quote=True))
    return _EMPHASIS.sub(r"<em>\1</em>", _STRONG.sub(r"<strong>\1</strong>", found))


def _taken(waiting: list[str], pattern: re.Pattern[str]) -> list[str]:
    """The lines at the front that match."""
    found = []
    while waiting and pattern.match(waiting[0]):
        found.append(waiting.pop(0))
    return found


def _code(waiting: list[str]) -> str:
    found = []
    while waiting and not (line := waiting.pop(0)).startswith(FENCE):
        found.append(line)
    return f"<pre><code>{escape(chr(10).join(found))}</code></pre>"


def _list(lines: list[str]) -> str:
    items = [match for line in lines if (match := _ITEM.match(line))]
    tag = "ol" if items[0][1] else "ul"
    return f"<{tag}>{''.join(f'<li>{inline(item[2])}</li>' for item in items)}</{tag}>"


def _table(lines: list[str]) -> str:
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in lines
        if not _RULE.fullmatch(line)
    ]
    head, *body = rows or [[]]
    cells = "".join(f"<th>{inline(cell)}</th>" for cell in head)
    inner = "".join("<tr>" + "".join(f"<td>{inline(cell)}</td>" for cell in row) + "</tr>" for row in body)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{inner}</tbody></table>"

"""The HTML file of a report: everything inside, no script, and a policy that forbids loading. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 900px; margin: 2.5rem auto; padding: 0 1rem; }
h1, h2, h3 { line-height: 1.25; }
table { border-collapse: collapse; font-size: 14px; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { border-bottom: 1px solid #8884; padding: 4px 12px 4px 0; text-align: left; }
td.number { text-align: right; font-variant-numeric: tabular-nums; }
pre { background: #8881; padding: .7rem 1rem; overflow-x: auto; border-radius: 6px; }
code { font-size: .92em; }
figure { margin: 1.5rem 0; } figcaption { font-weight: 600; }
svg { width: 100%; height: auto; } svg text { font-size: 12px; fill: currentColor; opacity: .75; }
.grid { stroke: #8884; }
.legend { list-style: none; padding: 0; font-size: 13px; display: flex; flex-wrap: wrap; gap: 4px 16px; }
.legend span { display: inline-block; width: 14px; height: 4px; margin-right: 6px; vertical-align: middle; }
.empty, footer { color: #888; font-size: 13px; }
"""


def html_page(title: str, parts: Iterable[str], footer: str) -> str:
    body = "\n".join(parts)
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        "<meta name='viewport' content='width=device-width'>"
        f"<title>{escape(title)}</title><style>{STYLE}</style></head>\n"
        f"<body>\n{body}\n<footer>{escape(footer)}</footer>\n</body></html>\n"
    )


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> str:
    head = "".join(f"<th>{escape(str(name))}</th>" for name in columns)
    body = "".join("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    caption = f"<figcaption>{escape(title)}</figcaption>" if title else ""
    if not body:
        return f"<figure>{caption}<p class='empty'>no rows</p></figure>"
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<figure>{caption}{table}</figure>"


def _cell(value: Any) -> str:
    if value is None:
        return "<td></td>"
    if isinstance(value, bool):
        return f"<td>{value}</td>"
    if isinstance(value, int):
        return f"<td class='number'>{value:,}</td>"
    if isinstance(value, float):
        return f"<td class='number'>{value:.6g}</td>"
    return f"<td>{escape(str(value))}</td>"

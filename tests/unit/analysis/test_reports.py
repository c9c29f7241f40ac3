"""Reports are read, drawn and escaped."""

from __future__ import annotations

import math
from xml.etree import ElementTree

import pytest

from runspine.errors import InvalidError
from runspine.reports.charts import Line, line_chart, short
from runspine.reports.document import Prose, Query, parse
from runspine.reports.markdown import inline, to_html
from runspine.reports.page import html_page, html_table

EVIL = "<script>alert(1)</script>"
SOURCE = """# Title

text

```chart
metric: loss
runs: {env: CartPole-v1}
```
```python
print("kept as code")
```
```sql
SELECT 1
```
"""


def test_blocks_are_found_in_their_order_with_their_lines() -> None:
    first, chart, code, sql = parse(SOURCE)
    assert isinstance(first, Prose)
    assert isinstance(chart, Query)
    assert (chart.kind, chart.line, chart.fields["metric"]) == ("chart", 5, "loss")
    assert isinstance(code, Prose)
    assert "print(&quot;kept as code&quot;)" in to_html(code.lines)
    assert isinstance(sql, Query)
    assert (sql.kind, sql.text) == ("sql", "SELECT 1")


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("```chart\nmetric: loss", "line 1: the block has no end"),
        ("\n```chart\nruns: {}\n```", "line 2: metric: expected"),
        ("```chart\nmetrik: loss\n```", "metric"),
        ("```runs\nruns: {enf: a}\n```", "env"),
        ("```runs\n- a\n```", "expected fields"),
        ("```runs\n{a: [\n```", "not YAML"),
    ],
)
def test_a_wrong_block_is_refused_by_its_line(source: str, what: str) -> None:
    with pytest.raises(InvalidError) as refused:
        parse(source)
    assert what in "; ".join(map(str, refused.value.violations))


def test_markdown_becomes_html_and_nothing_else_does() -> None:
    lines = ["## A *b* `*c*`", "1. one", "2. **two**", "", "| a | b |", "|---|---|", f"| 1 | {EVIL} |"]
    html = to_html(lines)
    assert "<h2>A <em>b</em> <code>*c*</code></h2>" in html
    assert "<ol><li>one</li><li><strong>two</strong></li></ol>" in html
    assert "<th>a</th>" in html
    assert "<script" not in html
    assert inline("[x](javascript:alert(1))") == "[x](javascript:alert(1))"
    assert inline('[x](https://a.org/"onclick=b)') == (
        '<a href="https://a.org/&quot;onclick=b" rel="noreferrer">x</a>'
    )


def test_a_chart_is_sound_whatever_its_values_and_names_are() -> None:
    steps = [0.0, 1.0, 2.0, 3.0]
    lines = [
        Line(EVIL, steps, [1.0, math.nan, 3.0, math.inf], [0.0] * 4, [5.0] * 4),
        Line("constant", steps, [1e300, -1e300, 1e300, 0.0]),
    ]
    for log in (False, True):
        figure = line_chart(lines, title=f"a & {EVIL}", log=log)
        assert ElementTree.fromstring(figure).find("svg") is not None
        assert "nan" not in figure.replace("constant", "")
        assert "inf" not in figure
    assert "no points" in line_chart([Line("a", [0.0], [math.nan])])
    assert ElementTree.fromstring(line_chart([Line("flat", [5.0, 5.0], [2.0, 2.0])])) is not None
    assert [short(1_500_000), short(0.003)] == ["1.5M", "0.003"]


def test_a_page_loads_nothing_and_escapes_cells() -> None:
    page = html_page(EVIL, [html_table(["a"], [[EVIL], [None], [1234], [0.5]])], "end")
    assert "<script" not in page
    assert "default-src 'none'" in page
    assert "1,234" in page

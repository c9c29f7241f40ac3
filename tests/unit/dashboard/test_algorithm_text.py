from __future__ import annotations

from nicegui.elements.markdown import prepare_content

from runspine.services.dashboard.core.algorithm_text import MAX_CHARACTERS, without_markup

HOSTILE = """**Bold** <img src=x onerror=alert(1)>
![a picture](https://example.org/x.png) [a link](javascript:alert(1))

<script>alert(1)</script>

| family | steps |
|---|---|
| Box2D | 1 |
"""


def test_no_html_picture_or_link_of_a_worker_reaches_the_page() -> None:
    page = prepare_content(without_markup(HOSTILE), extras="tables")
    for tag in ("<img", "<script", "<a ", "javascript:", "https:"):
        assert tag not in page
    assert "<strong>Bold</strong>" in page
    assert "a picture a link" in page
    assert "<td>Box2D</td>" in page


def test_a_text_without_end_is_cut() -> None:
    assert len(without_markup("x" * 10 * MAX_CHARACTERS)) == MAX_CHARACTERS

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.kit import tutorial
from tests.kit.paths import ROOT

# What a browser fetches by itself; a link that a person follows may lead anywhere.
FETCHED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class Fetches(HTMLParser):
    """Addresses that a page makes a browser fetch."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and given.get("rel") in ("canonical", "next", "prev"):
            return
        self.found += [given[FETCHED[tag]] or ""] if FETCHED.get(tag) in given else []


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built in strict mode: a broken link, a missing anchor or a page outside the navigation is an error."""
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return out


def test_the_site_is_built_and_no_link_in_it_is_broken(site: Path) -> None:
    for page in ("index", "tutorial", "reference/commands", "adr/index", "source/examples/sdk_trainer.py"):
        assert (site / f"{page}.html").exists(), page


def test_no_page_fetches_anything_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetches = Fetches()
        fetches.feed(page.read_text())
        abroad = [address for address in fetches.found if re.match(r"(https?:)?//", address)]
        assert abroad == [], page
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\([\"']?(https?:)?//", sheet.read_text()), sheet


def test_no_page_asks_for_diagrams_that_the_theme_would_fetch_a_program_for() -> None:
    assert [page for page in (ROOT / "docs").rglob("*.md") if "```mermaid" in page.read_text()] == []


def test_every_how_to_is_in_the_table_of_how_tos() -> None:
    table = (ROOT / "docs/howto/index.md").read_text()
    pages = {path.name for path in (ROOT / "docs/howto").glob("*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in table} == set()


def test_the_tutorial_is_made_of_commands_and_what_they_print() -> None:
    steps = tutorial.blocks(tutorial.PAGE.read_text())
    assert len(steps) > 8
    assert all(step.promises for step in steps), "a command without a promise proves nothing"


@pytest.mark.parametrize(
    ("promises", "output", "lacks"),
    [
        (("a … c", "d"), "a b c\nx\nd", ""),
        (("a", "b"), "b\na", "b"),
        (("✓ nats …",), "✓ nats      127.0.0.1:4222", ""),
        (("whole",), "not whole", "whole"),
        (("…", "d"), "x\nd", ""),
    ],
)
def test_a_promise_is_a_line_in_its_order_with_gaps_where_it_is_marked(
    promises: tuple[str, ...], output: str, lacks: str
) -> None:
    assert tutorial.missing(promises, output) == lacks

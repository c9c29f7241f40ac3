"""Add files of the repository outside docs/ that a page links to.

In the repository a page links to `../../examples/sdk_trainer.py`. In the site the same link leads to a page
that is made from the file when the site is built.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Shown in the navigation, whether or not a page links to them.
ALWAYS = ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
LINK = re.compile(r"(?<=\]\()(?P<path>[^)\s#:]+)(?P<rest>#[^)\s]*)?(?=\))")
LANGUAGES = {
    ".py": "python",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".proto": "protobuf",
    ".toml": "toml",
    ".asl": "prolog",
}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each file outside docs/ that is linked to, and for those it links to in turn."""
    wanted = list(ALWAYS)
    for file in files.documentation_pages():
        wanted += [found for found, _ in _outside(file.content_string, f"docs/{file.src_uri}")]
    done: set[str] = set()
    while wanted:
        path = wanted.pop()
        if path in done:
            continue
        done.add(path)
        text = _page(path)
        wanted += [found for found, _ in _outside(text, path)]
        files.append(File.generated(config, _uri(path), content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    here = page.file.src_uri
    inside = here.startswith("source/")
    origin = _origin(here) if inside else f"docs/{here}"
    for path, written in _outside(markdown, origin):
        markdown = markdown.replace(
            f"]({written}", f"]({posixpath.relpath(_uri(path), posixpath.dirname(here))}"
        )
    if inside:
        markdown = _into_docs(markdown, origin, here)
    return markdown


def _outside(text: str, origin: str) -> list[tuple[str, str]]:
    """Files of the repository that a text links to and the site does not have: path, and as it is written."""
    found = []
    for match in LINK.finditer(text):
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match["path"]))
        if not path.startswith(("docs/", "../")) and (ROOT / path).is_file():
            found.append((path, match["path"]))
    return found


def _into_docs(text: str, origin: str, here: str) -> str:
    """Links of a file outside to pages of docs/, as the site has them."""

    def led(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(posixpath.dirname(origin), match["path"]))
        if not path.startswith("docs/"):
            return match[0]
        return posixpath.relpath(path.removeprefix("docs/"), posixpath.dirname(here)) + (match["rest"] or "")

    return LINK.sub(led, text)


def _uri(path: str) -> str:
    return f"source/{path}" if path.endswith(".md") else f"source/{path}.md"


def _origin(uri: str) -> str:
    path = uri.removeprefix("source/")
    return path if (ROOT / path).is_file() else path.removesuffix(".md")


def _page(path: str) -> str:
    text = (ROOT / path).read_text()
    if path.endswith(".md"):
        return text
    language = LANGUAGES.get(Path(path).suffix, "text")
    return f"# {path}\n\n````{language}\n{text}````\n"

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kit.paths import ROOT
from tests.tools import walks


def architecture(*steps: str) -> str:
    listed = "\n".join(f"{number}. `{path}` — does it" for number, path in enumerate(steps, 1))
    return "".join(f"\n## {title}\n\n{listed}\n" for title in walks.WALKS)


def test_a_walk_of_files_that_exist_has_no_fault() -> None:
    assert walks.walk_faults(architecture("README.md", "Makefile")) == []


@pytest.mark.parametrize(
    ("steps", "fault"),
    [
        ((), "no walk under"),
        (("README.md", "runspine/nowhere.py"), "runspine/nowhere.py does not exist"),
        (("README.md", "README.md"), "names a file twice"),
        (tuple(f"{number}.py" for number in range(41)), "has 41 files"),
    ],
)
def test_a_walk_that_is_wrong_is_named(steps: tuple[str, ...], fault: str) -> None:
    assert any(fault in found for found in walks.walk_faults(architecture(*steps)))


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("`runspine/ids.py`, `runspine/cli/`, `services/*/core`, `tests/replay/<version>.log`", 0),
        ("`runspine/nowhere.py`", 1),
        ("```\n`runspine/nowhere.py`\n```\n", 0),
        ("`python -m runspine.services.worker` and `python -m tests.drift --write`", 0),
        ("`python -m services.worker`", 1),
        ("`test_walks.py`", 0),
        ("`test_nothing_of_that_name.py`", 1),
    ],
)
def test_paths_and_modules_of_a_page_must_exist(
    text: str, faults: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "page.md"
    page.write_text(text)
    monkeypatch.setattr(walks, "ROOT", tmp_path)
    for name in ("runspine", "services", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    assert len(walks.path_faults(page)) == faults

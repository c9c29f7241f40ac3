"""A stack with its page and a browser in front of it, for all tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runspine.bench.kit.browser import Browser, browsing
from tests.kit.page import PageRig


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageRig]:
    rig = PageRig(tmp_path_factory.mktemp("page") / "home")
    rig.up()
    yield rig
    rig.shell("down")


@pytest.fixture(scope="module")
def browser(rig: PageRig) -> Iterator[Browser]:
    with browsing(rig.address) as found:
        found.login(rig.token)
        yield found

"""Each fuzz target for a moment, and everything that ever broke one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from tests.fuzz.inputs import inputs
from tests.fuzz.targets import TARGETS
from tests.kit.paths import CORPUS

KNOWN = sorted(path for path in CORPUS.glob("*/*") if path.parent.name in TARGETS)


@pytest.mark.parametrize("path", KNOWN, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_inputs_that_once_failed_stay_fixed(path: Path) -> None:
    TARGETS[path.parent.name](path.read_bytes())


@pytest.mark.parametrize("name", TARGETS)
def test_hostile_input_is_refused_in_words_or_taken_for_what_it_is(name: str) -> None:
    @settings(max_examples=60, suppress_health_check=list(HealthCheck))
    @given(inputs(name))
    def check(data: bytes) -> None:
        TARGETS[name](data)

    check()

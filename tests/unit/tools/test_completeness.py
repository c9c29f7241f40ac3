"""What exists in one list exists in every other list of the same thing (docs/develop.md)."""

from __future__ import annotations

import inspect
import re
import tomllib
from typing import get_args

import pytest

from runspine.cli import SECTIONS
from runspine.domain import artifact_kinds
from runspine.domain.run import ACTIVE, ENDED, attempts
from runspine.services.launcher import assembly
from runspine.services.launcher.pools import AnyPool
from runspine.services.orchestrator.core import board
from runspine.settings import ServiceSettings
from runspine.sinks import catalogue
from runspine.wire.v1.facts_pb2 import Fact
from runspine.wire.v1.run_pb2 import Phase
from tests.drift.settings import SERVICES
from tests.kit.paths import ROOT
from tests.kit.samples.sinks import KINDS


def page(path: str) -> str:
    return (ROOT / "docs" / path).read_text()


def test_every_fact_of_the_attempts_stream_is_folded() -> None:
    fields = Fact.DESCRIPTOR.oneofs_by_name["kind"].fields
    code = inspect.getsource(attempts) + inspect.getsource(board)
    folded = set(re.findall(r'case "(\w+)"', code))
    assert {field.name for field in fields if 40 <= field.number < 60} <= folded


def test_every_phase_is_active_or_has_ended() -> None:
    assert {value for value in Phase.values() if value} == ACTIVE | ENDED
    assert not ACTIVE & ENDED


def test_every_runner_is_checked_and_described() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    runners = set(project["entry-points"]["runspine.runners"])
    conformance = (ROOT / "tests/integration/runners/test_conformance.py").read_text()
    checked = conformance.partition("SHIPPED")[2].partition("\n}\n")[0]
    assert runners == {*re.findall(r'^    "(\w+)":', checked, re.MULTILINE), "script"}
    assert {name for name in runners if f"`{name}`" not in page("howto/train.md")} == set()


def test_every_sink_is_under_the_contract_and_described() -> None:
    assert {kind.name.partition(" ")[0] for kind in KINDS} == set(catalogue.NAMES)
    assert {name for name in catalogue.NAMES if f"--to {name}" not in page("howto/sinks.md")} == set()


def test_every_kind_of_artifact_is_described() -> None:
    kinds = {
        value for name, value in vars(artifact_kinds).items() if name.isupper() and isinstance(value, str)
    }
    assert {kind for kind in kinds if f"| `{kind}` |" not in page("howto/artifacts.md")} == set()


@pytest.mark.parametrize("name", [name for section in SECTIONS.values() for name in section])
def test_every_command_is_in_the_overview(name: str) -> None:
    assert re.search(rf"`{name}\b", page("cli.md"))


def test_every_tab_of_a_run_is_described() -> None:
    code = (ROOT / "services/dashboard/pages/run/page.py").read_text()
    tabs = re.findall(r'^    "(\w+)": \("', code, re.MULTILINE)
    assert len(tabs) > 5
    assert {tab for tab in tabs if f"`{tab}`" not in page("howto/web.md")} == set()


def test_every_engine_can_be_opened() -> None:
    pools = get_args(get_args(AnyPool)[0])
    code = inspect.getsource(assembly)
    assert {pool.__name__ for pool in pools if f"case {pool.__name__}()" not in code} == set()


@pytest.mark.parametrize("settings", SERVICES.values(), ids=list(SERVICES))
def test_every_setting_is_described(settings: type[ServiceSettings]) -> None:
    assert {name for name, field in settings.model_fields.items() if not field.description} == set()

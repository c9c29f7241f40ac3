from __future__ import annotations

import sys

import pytest

from tests.tools.audit import assess, audit

FINE = {"name": "numpy", "version": "2.0", "vulns": []}
BAD = {"name": "old", "version": "1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["1.1"]}]}
SKIPPED = {"name": "torch", "skip_reason": "not found"}
OWN = {"name": "runspine", "skip_reason": "editable"}


@pytest.mark.parametrize(
    ("packages", "code"),
    [
        ([FINE, OWN], 0),
        ([FINE, BAD], 1),
        ([FINE, BAD, SKIPPED], 1),
        ([FINE, SKIPPED], 2),
        ([OWN], 2),
        ([], 2),
    ],
)
def test_an_audit_passes_only_when_all_was_audited(packages: list[dict[str, object]], code: int) -> None:
    assert assess(packages)[0] == code


def test_an_audit_without_the_network_fails_with_the_reason() -> None:
    code, lines = audit([sys.executable, "-c", "raise SystemExit('no route to pypi.org')"])
    assert code == 2
    assert "no route to pypi.org" in lines[0]


def test_an_audit_without_pip_audit_fails_with_the_reason() -> None:
    code, lines = audit(["/nowhere/pip-audit"])
    assert code == 2
    assert "/nowhere/pip-audit" in lines[0]

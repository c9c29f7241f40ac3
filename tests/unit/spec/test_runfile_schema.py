from __future__ import annotations

import json

import pytest

from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.paths import ROOT

SCHEMA = ROOT / "runspine" / "runfile.schema.json"


def test_the_schema_has_not_drifted_from_the_contract() -> None:
    pytest.importorskip("grpc_tools")
    from runspine.spec.run_file_schema import schema_text

    made = schema_text(ROOT / "proto")
    assert SCHEMA.read_text() == made, (
        "run: python -m runspine.spec.run_file_schema > runspine/runfile.schema.json"
    )


def test_every_field_is_in_the_schema_and_explained() -> None:
    schema = json.loads(SCHEMA.read_text())
    assert set(schema["properties"]) == {*RunSpec.DESCRIPTOR.fields_by_name, "seeds", "sweep"}
    assert [name for name, field in schema["properties"].items() if not field.get("description")] == []
    assert schema["additionalProperties"] is False
    assert schema["properties"]["limits"]["properties"]["wall_seconds"]["type"] == "number"
    assert schema["properties"]["mode"]["enum"] == ["train", "evaluate", "play"]

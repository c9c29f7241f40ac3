"""Every text that is drawn from code or contract."""

from __future__ import annotations

from pathlib import Path

from runspine.spec.run_file_schema import schema_text
from tests.drift.algorithms import algorithms_doc
from tests.drift.commands import commands_doc
from tests.drift.decisions import decisions_doc
from tests.drift.events import events_doc
from tests.drift.grpc import grpc_doc
from tests.drift.life import life_doc, life_picture
from tests.drift.metrics import metrics_doc
from tests.drift.page_api import client_types, openapi_text
from tests.drift.seeds import seeds_doc
from tests.drift.settings import settings_doc
from tests.kit.paths import ROOT

DOCS = ROOT / "docs"


def generated() -> dict[Path, str]:
    """Each file with the text that it should hold."""
    return {
        DOCS / "run-life.md": life_doc(),
        DOCS / "images" / "run-life.svg": life_picture(),
        DOCS / "adr" / "index.md": decisions_doc(),
        DOCS / "events.md": events_doc(),
        DOCS / "seeds.md": seeds_doc(),
        DOCS / "reference" / "algorithms.md": algorithms_doc(),
        DOCS / "reference" / "commands.md": commands_doc(),
        DOCS / "reference" / "settings.md": settings_doc(),
        DOCS / "reference" / "metrics.md": metrics_doc(),
        DOCS / "reference" / "grpc.md": grpc_doc(),
        DOCS / "reference" / "openapi.json": openapi_text(),
        ROOT / "services/dashboard/client/src/api/types.ts": client_types(),
        ROOT / "runspine" / "runfile.schema.json": schema_text(ROOT / "proto"),
    }

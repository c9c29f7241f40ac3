"""docs/reference/settings.md, from the settings of each service."""

from __future__ import annotations

import inspect
import types
import typing
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from runspine.bootstrap import BootstrapSettings
from runspine.grpc_server import GrpcSettings
from runspine.settings import PREFIX, ServiceSettings
from services.artifacts.settings import ArtifactsSettings
from services.dashboard.settings import DashboardSettings
from services.launcher.settings import LauncherSettings
from services.orchestrator.settings import OrchestratorSettings
from services.telemetry.settings import TelemetrySettings
from services.worker.settings import WorkerSettings

INTRODUCTION = """# Settings

Generated from the settings of each service by `make proto`. A service reads them from its environment when it
starts; a wrong value stops it with the variable's name. `runspine up` sets what the parts need to find each
other, and hands on `RUNSPINE_*` variables of yours. What the command line and trainers read is told in
[the command line](../cli.md#where-the-stack-is) and [the protocol](../protocol.md#what-the-trainer-is-given).
"""

SERVICES: dict[str, type[ServiceSettings]] = {
    "orchestrator": OrchestratorSettings,
    "telemetry": TelemetrySettings,
    "artifacts": ArtifactsSettings,
    "worker": WorkerSettings,
    "dashboard": DashboardSettings,
    "launcher": LauncherSettings,
    "bootstrap": BootstrapSettings,
}


def settings_doc() -> str:
    lines = [INTRODUCTION, "## Every service", "", *_table(ServiceSettings, {})]
    common = ServiceSettings.model_fields
    lines += ["", "## Services that serve gRPC", "", "The orchestrator, telemetry and artifacts.", ""]
    lines += _table(GrpcSettings, common)
    for name, settings in SERVICES.items():
        parent = GrpcSettings if issubclass(settings, GrpcSettings) else ServiceSettings
        lines += ["", f"## {name.capitalize()}", "", *_table(settings, parent.model_fields)]
    return "\n".join(lines) + "\n"


def _table(settings: type[ServiceSettings], known: dict[str, FieldInfo]) -> list[str]:
    """What is new in this class or has another default than where it was told before."""
    rows = [
        f"| `{PREFIX}{name.upper()}` | {_kind(field.annotation)} | {_default(field)} | {field.description} |"
        for name, field in settings.model_fields.items()
        if name not in known or known[name].default != field.default
    ]
    return ["| variable | type | default | |", "|---|---|---|---|", *rows]


def _kind(annotation: Any) -> str:
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return " or ".join(f"`{word}`" for word in inner)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_kind(part) for part in inner if part is not type(None))
    if origin is typing.Annotated:
        return _kind(inner[0])
    if origin is dict:
        return "JSON"
    words = {
        str: "text",
        SecretStr: "secret",
        Path: "path",
        bool: "true or false",
        int: "integer",
        float: "number",
    }
    return words[annotation]


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "**required**"
    if field.default_factory is not None:
        if field.default_factory is dict:
            return ""
        # What the machine says is not a constant: the factory's own words stand for it.
        doc = inspect.getdoc(field.default_factory) or ""
        assert doc, f"{field.default_factory} needs a docstring: it is the default in the docs"
        return doc.rstrip(".")
    value = field.default
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        value = str(value).lower()
    return f"`{value}`"

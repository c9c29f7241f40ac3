"""docs/reference/settings.md, from the settings of each service."""

from __future__ import annotations

import inspect
import types
import typing
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from runspine.rpc.server import GrpcSettings
from runspine.service.bootstrap import BootstrapSettings
from runspine.services.artifacts.settings import ArtifactsSettings, JanitorSettings
from runspine.services.dashboard.settings import DashboardSettings
from runspine.services.launcher.settings import LauncherSettings
from runspine.services.notices.settings import NoticesSettings
from runspine.services.orchestrator.settings import OrchestratorSettings
from runspine.services.telemetry.settings import TelemetrySettings
from runspine.services.worker.settings import WorkerSettings
from runspine.settings import PREFIX, ServiceSettings

INTRODUCTION = """# Settings

Generated from the settings of each service by `make proto`. A service reads them from its environment when it
starts; a wrong value stops it with the variable's name. `runspine up` sets what the parts need to find each
other, and passes your `RUNSPINE_*` variables on. Variables of the command line and of trainers:
[the command line](../cli.md#where-the-stack-is) and [the protocol](../protocol.md#what-the-trainer-is-given).
"""

SERVICES: dict[str, type[ServiceSettings]] = {
    "orchestrator": OrchestratorSettings,
    "telemetry": TelemetrySettings,
    "artifacts": ArtifactsSettings,
    "janitor": JanitorSettings,
    "worker": WorkerSettings,
    "dashboard": DashboardSettings,
    "launcher": LauncherSettings,
    "notices": NoticesSettings,
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
    """Fields that are new in this class or have another default than in its parent."""
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
        # A default that depends on the machine is described by its factory.
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

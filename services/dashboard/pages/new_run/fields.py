"""Form controls for the parameters of a runner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml
from nicegui import ui

from runspine.services.dashboard.core.draft import default_of
from runspine.spec.plain import json_text
from runspine.wire.v1.runner_pb2 import BOOLEAN, INTEGER, LIST, MAP, NUMBER, Param

Set = Callable[[str, Any], None]


def param_field(param: Param, value: Any, put: Set) -> None:
    """Draw the control for one parameter; `put` is called with its name and every new value."""
    default = default_of(param)
    shown = default if value is None else value
    if param.type == BOOLEAN:
        _switch(param, bool(shown), put)
        return
    control: Any
    if param.choices:
        control = ui.select(
            list(param.choices),
            value=shown,
            label=param.name,
            on_change=lambda event: put(param.name, event.value),
        )
    elif param.type in (INTEGER, NUMBER):
        control = ui.number(
            param.name, value=shown, on_change=lambda event: put(param.name, _number(param, event.value))
        )
        control.props(f"step={'1' if param.type == INTEGER else 'any'}")
    elif param.type in (LIST, MAP):
        control = ui.input(
            param.name,
            value="" if shown is None else json_text(shown),
            on_change=lambda event: put(param.name, _read(event.value)),
        )
    else:
        control = ui.input(
            param.name,
            value="" if shown is None else str(shown),
            on_change=lambda event: put(param.name, event.value),
        )
    hints = [param.help]
    if param.HasField("minimum") or param.HasField("maximum"):
        low = f"{param.minimum:g}" if param.HasField("minimum") else "…"
        high = f"{param.maximum:g}" if param.HasField("maximum") else "…"
        hints.append(f"({low} to {high})")
    help_text(control, " ".join(hint for hint in hints if hint))


def _switch(param: Param, shown: bool, put: Set) -> None:
    """A switch with its help below: Quasar's toggle has no hint of its own."""
    with ui.element("div").classes("rs-switch"):
        control = ui.switch(param.name, value=shown, on_change=lambda event: put(param.name, event.value))
        if param.help:
            control.props["aria-description"] = param.help
            ui.label(param.help).classes("rs-quiet rs-hint")


def help_text(control: Any, text: str) -> None:
    """Show a text below the field, accessible to touch devices and screen readers."""
    if text:
        control.props["hint"] = text
        control.props["aria-description"] = text


def whole(value: Any) -> int | None:
    return None if value is None else int(value)


def _number(param: Param, value: Any) -> int | float | None:
    if value is None:
        return None
    return int(value) if param.type == INTEGER and float(value).is_integer() else value


def _read(text: Any) -> Any:
    """A list or a map from YAML; text when it is malformed, so that validation names the field."""
    try:
        return yaml.safe_load(str(text)) if text else None
    except yaml.YAMLError:
        return str(text)

"""Configurations that are kept for a person, by runner, and run files pasted from elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nicegui import app, ui

from runspine.errors import Invalid
from runspine.plain import to_plain
from runspine.runfile import parse

MODE = "train"


async def choose_preset(runner: str, plain: dict[str, Any]) -> dict[str, Any] | None:
    """One that was kept, or None after keeping this one."""
    # Evaluations have presets of their own.
    kept: dict[str, Any] = app.storage.user.setdefault("presets", {}).setdefault(f"{MODE} {runner}", {})
    with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
        ui.label(f"Presets of {runner}").classes("text-lg")
        if not kept:
            ui.label("None yet. What is filled in can be kept under a name.").classes("rs-quiet")
        for name in sorted(kept):
            with ui.row().classes("w-full items-center no-wrap"):
                ui.button(name, on_click=lambda name=name: dialog.submit(("use", name))).props("flat no-caps")
                ui.space()
                ui.button(icon="delete", on_click=lambda name=name: dialog.submit(("drop", name))).props(
                    'flat dense round aria-label="Forget this preset"'
                )
        fresh = ui.input("Keep what is filled in under the name").classes("w-full")
        with ui.row():
            ui.button("Back", on_click=lambda: dialog.submit(None)).props("flat")
            ui.button("Keep", on_click=lambda: dialog.submit(("keep", fresh.value)))
    answer = await dialog
    match answer:
        case ("use", name):
            found: dict[str, Any] = kept[name]
            return found
        case ("drop", name):
            del kept[name]
        case ("keep", name) if name:
            kept[name] = plain
            ui.notify(f"Kept as {name}.", type="positive")
    return None


async def paste_run_file() -> dict[str, Any] | None:
    """A run file as plain values, or None; flaws are told with their field."""
    with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
        text = ui.textarea("A run file").classes("w-full rs-typed").props("autofocus rows=16")
        trouble = ui.label().classes("rs-bad rs-lines").props('role="alert"')

        def use() -> None:
            try:
                found = parse(str(text.value or ""), source="the pasted text", folder=Path("/"))
            except Invalid as error:
                trouble.set_text(str(error))
                return
            if len(found.specs) != 1:
                trouble.set_text(f"It asks for {len(found.specs)} runs; runspine submit takes sweeps.")
                return
            dialog.submit(to_plain(found.specs[0], full=False))

        with ui.row():
            ui.button("Back", on_click=lambda: dialog.submit(None)).props("flat")
            ui.button("Use it", on_click=use)
    answer: dict[str, Any] | None = await dialog
    return answer

"""The dialog that imports a checkpoint from the visitor's machine."""

from __future__ import annotations

import tempfile
from pathlib import Path

from nicegui import events, ui

from runspine.errors import RunspineError
from runspine.services.dashboard.edges.checkpoint_import import import_upload
from runspine.services.dashboard.pages.elements.context import Visitor

MAX_FILE_BYTES = 2 << 30


async def open_import_dialog(visitor: Visitor) -> bool:
    """Show the dialog; returns whether a checkpoint was imported."""
    with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
        ui.label("Import a checkpoint").classes("text-lg")
        ui.label(
            "Stable-Baselines3 .zip, CleanRL .cleanrl_model, .safetensors, .pt; read without executing it."
        ).classes("rs-quiet")
        env = ui.input("Environment (if the file does not name it)").classes("w-full").props("autofocus")
        algo = ui.input("Algorithm (if the file does not name it)").classes("w-full")
        trouble = ui.label().classes("rs-bad rs-lines").props('role="alert"')

        async def take(event: events.UploadEventArguments) -> None:
            trouble.set_text("")
            with tempfile.TemporaryDirectory(prefix="runspine-import-") as folder:
                # The name is untrusted: only its last part, and never an option or a hidden file.
                path = Path(folder) / (Path(event.file.name).name.lstrip(".-") or "checkpoint")
                await event.file.save(path)
                options = {"env": str(env.value or "").strip(), "algo": str(algo.value or "").strip()}
                try:
                    await import_upload(visitor.backend, visitor.person.token, path, options)
                except RunspineError as error:
                    trouble.set_text(str(error))
                    upload.reset()
                    return
            dialog.submit(True)

        upload = ui.upload(
            label="Choose or drop a file", auto_upload=True, max_file_size=MAX_FILE_BYTES, on_upload=take
        )
        upload.classes("w-full").props("flat bordered")
        ui.button("Back", on_click=lambda: dialog.submit(False)).props("flat")
    if await dialog:
        ui.notify("Imported.", type="positive")
        return True
    return False

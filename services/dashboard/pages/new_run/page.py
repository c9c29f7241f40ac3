"""The new-run page: a form generated from the runner's declaration and validated while it is edited."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fastapi import Request
from nicegui import app, ui

from runspine.errors import InvalidError, RunspineError
from runspine.ids import new_ulid
from runspine.services.dashboard.core.draft import RunDraft, as_plain, from_plain, params_of
from runspine.services.dashboard.core.preflight import (
    ERROR,
    NOTICE,
    OK,
    PreflightCheck,
    may_launch,
    preflight,
)
from runspine.services.dashboard.core.submit_command import submit_command
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.frame import frame, page
from runspine.services.dashboard.pages.elements.notices import empty, problem, wait_for_browser
from runspine.services.dashboard.pages.elements.plain_text import block
from runspine.services.dashboard.pages.new_run.form import STARTER_SPECS, RunForm
from runspine.services.dashboard.pages.new_run.presets import choose_preset, paste_run_file
from runspine.spec.plain import to_plain
from runspine.spec.run_file import parse
from runspine.spec.strict_yaml import write_yaml
from runspine.text.preflight import command_text
from runspine.wire.v1.preflight_pb2 import Preflight
from runspine.wire.v1.run_pb2 import Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import TRAIN, RunSpec
from runspine.wire.v1.trainer_pb2 import (
    GetRequest,
    ListRunnersRequest,
    ListWorkersRequest,
    SubmitRequest,
    ValidateRequest,
)

CHECK_SECONDS = 0.3
# Checks are repeated, because workers come and go.
RECHECK_SECONDS = 5.0
NO_COMMAND = "Shown when a worker has checked the launch."
LEVEL_CLASSES = {
    ERROR: ("cancel", "rs-bad"),
    NOTICE: ("info", "rs-warn"),
    OK: ("check_circle", "rs-good"),
}


def add_new_page(context: PageContext) -> None:
    @page("/new")
    async def new(request: Request) -> None:
        visitor = context.visitor(request)
        with frame(context, visitor, "New run", "/new"):
            if not visitor.person.may_run:
                problem(
                    "This token is read-only",
                    "Log in with a token of scope run to start runs.",
                    "All runs",
                    "/",
                )
                return
            await wait_for_browser("Loading runners…")
            try:
                request_all = ListRunnersRequest(with_help=True)
                runners = (await visitor.access.call("trainer", "ListRunners", request_all)).runners
                draft = await _first_draft(visitor, request.query_params.get("from", ""))
            except RunspineError as error:
                problem("The form cannot be loaded", str(error), "All runs", "/")
                return
            usable = {info.name: info for info in runners if TRAIN in info.modes}
            if usable:
                NewRun(context, visitor, usable, draft).draw()
            else:
                empty(
                    "No worker available",
                    "The form is generated from the runners of the workers. Start a worker first.",
                )


async def _first_draft(visitor: Visitor, parent: str) -> RunDraft:
    """The spec of the run to fork, else the last one launched, else a starter."""
    if parent:
        answer = await visitor.access.call("trainer", "Get", GetRequest(run_id=parent))
        plain = to_plain(answer.run.spec, full=False)
        plain.pop("name", None)
        return from_plain(plain)
    last = app.storage.user.get("last_run")
    return from_plain(last if isinstance(last, dict) else {"runner": "builtin", **STARTER_SPECS["builtin"]})


class NewRun:
    def __init__(
        self, context: PageContext, visitor: Visitor, runners: dict[str, RunnerInfo], draft: RunDraft
    ) -> None:
        self._context = context
        self._visitor = visitor
        self._runners = runners
        self._draft = draft if draft.runner in runners else RunDraft(runner=next(iter(runners)))
        self._changed = True
        self._checked = 0.0
        self._checks: list[PreflightCheck] = []
        self._spec: RunSpec | None = None
        # One key per state of the form: pressing Launch twice submits once.
        self._key = new_ulid()

    def draw(self) -> None:
        with ui.element("div").classes("rs-two"):
            self._form = ui.column().classes("rs-card rs-form")
            with ui.column().classes("rs-side"):
                with ui.row().classes("w-full items-center gap-1"):
                    self._launch = ui.button("Launch", icon="rocket_launch", on_click=self._submit)
                    self._launch.props("unelevated no-caps")
                    for name, icon, act in (
                        ("Presets", "bookmarks", self._presets),
                        ("Paste YAML", "content_paste", self._paste),
                        ("Last", "history", self._last),
                    ):
                        ui.button(name, icon=icon, on_click=act).props("flat dense no-caps")
                ui.label("Checks before launch").classes("rs-section")
                self._checklist = ui.column().classes("rs-card rs-pad w-full").props('role="status"')
                self._preview()
        self._launch.disable()
        self._draw_form()
        self._context.refresher.every(CHECK_SECONDS, self._check)

    def _preview(self) -> None:
        with ui.row().classes("w-full items-center"):
            ui.label("Run file").classes("rs-section")
            ui.space()
            ui.button("Download", icon="download", on_click=self._download).props("flat dense no-caps")
        self._yaml = block("", "rs-yaml")
        with ui.expansion("Shell command").classes("w-full"):
            self._command = block("", "rs-yaml")
        with ui.expansion("Trainer's command").classes("w-full"):
            self._trainer_command = block("", "rs-yaml")

    def _draw_form(self) -> None:
        self._form.clear()
        with self._form:
            RunForm(self._runners, self._draft, self._touch, self._restart).draw()
        self._touch()

    def _touch(self) -> None:
        self._changed = True

    def _restart(self, draft: RunDraft) -> None:
        """Redraw the form for another runner or algorithm."""
        self._draft = draft
        self._draw_form()

    @property
    def _info(self) -> RunnerInfo:
        return self._runners[self._draft.runner]

    def _plain(self) -> dict[str, Any]:
        return as_plain(self._draft, params_of(self._info, self._draft.algo))

    def _download(self) -> None:
        ui.download.content(write_yaml(self._plain()), "run.yaml")

    async def _check(self) -> None:
        """Validate the draft with the orchestrator, shortly after the last change."""
        now = time.monotonic()
        if not self._changed and now - self._checked < RECHECK_SECONDS:
            return
        if self._changed:
            self._key = new_ulid()
        self._changed, self._checked = False, now
        text = write_yaml(self._plain())
        self._yaml.set_text(text)
        self._command.set_text(submit_command(text))
        violations, notices, workers, launch = [], [], list[Worker](), Preflight()
        self._spec = None
        try:
            spec = parse(text, source="the form", folder=Path("/")).specs[0]
            workers = list(
                (await self._visitor.access.call("trainer", "ListWorkers", ListWorkersRequest())).workers
            )
            answer = await self._visitor.access.call("trainer", "Validate", ValidateRequest(spec=spec))
            self._spec, notices, launch = spec, list(answer.notices), answer.preflight
        except InvalidError as error:
            violations = [f"{each.field}: {each.message}" for each in error.violations] or [str(error)]
        except RunspineError as error:
            violations = [str(error)]
        self._trainer_command.set_text(command_text(launch) or NO_COMMAND)
        self._show_checks(preflight(self._info, workers, self._spec, violations, notices, launch))

    def _show_checks(self, checks: list[PreflightCheck]) -> None:
        self._launch.set_enabled(self._spec is not None and may_launch(checks))
        if checks == self._checks:
            return
        self._checks = checks
        self._checklist.clear()
        with self._checklist:
            for check in checks:
                icon, style = LEVEL_CLASSES[check.level]
                with ui.row().classes(f"items-start no-wrap gap-2 {style}"):
                    ui.icon(icon).props('aria-hidden="true"')
                    ui.label(check.text).classes("rs-lines")

    async def _submit(self) -> None:
        if self._spec is None or self._changed:
            return
        request = SubmitRequest(spec=self._spec, idempotency_key=self._key)
        try:
            answer = await self._visitor.access.call("trainer", "Submit", request)
        except RunspineError as error:
            ui.notify(str(error), type="negative", multi_line=True)
            return
        app.storage.user["last_run"] = self._plain()
        ui.navigate.to(f"/run/{answer.run.id}")

    async def _paste(self) -> None:
        self._use(await paste_run_file())

    async def _presets(self) -> None:
        self._use(await choose_preset(self._draft.runner, self._plain()))

    def _last(self) -> None:
        last = app.storage.user.get("last_run")
        if isinstance(last, dict):
            self._use(last)
        else:
            ui.notify("No run has been launched from this browser yet.", type="info")

    def _use(self, plain: dict[str, Any] | None) -> None:
        if plain is None:
            return
        draft = from_plain(plain)
        if draft.runner not in self._runners:
            ui.notify(f"No worker offers runner {draft.runner or '(none)'}.", type="negative")
            return
        self._restart(draft)

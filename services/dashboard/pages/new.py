"""A new run: a form built from what the chosen runner says about itself, checked while it is filled in."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from fastapi import Request
from nicegui import app, ui

from runspine.errors import Invalid, RunspineError
from runspine.ids import new_ulid
from runspine.plain import to_plain
from runspine.runfile import parse
from runspine.strict_yaml import write_yaml
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
from services.dashboard.core.command import submit_command
from services.dashboard.core.draft import Draft, as_plain, from_plain, params_of
from services.dashboard.core.preflight import Check, may_launch, preflight
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.frame import frame, page
from services.dashboard.pages.new_form import STARTERS, RunForm
from services.dashboard.pages.new_presets import choose_preset, paste_run_file
from services.dashboard.pages.notices import empty, problem, until_open
from services.dashboard.pages.plaintext import block

CHECK_SECONDS = 0.3
# Workers come and go while somebody thinks.
AGAIN_SECONDS = 5.0
LOOKS = {"bad": ("cancel", "rs-bad"), "know": ("info", "rs-warn"), "good": ("check_circle", "rs-good")}


def add_new_page(desk: Desk) -> None:
    @page("/new")
    async def new(request: Request) -> None:
        visitor = desk.visitor(request)
        with frame(desk, visitor, "New run", "/new"):
            if not visitor.person.may_run:
                problem(
                    "This token may only look",
                    "Log in with a token of scope run to start runs.",
                    "All runs",
                    "/",
                )
                return
            await until_open("Asking what can be run…")
            try:
                runners = (await visitor.access.ask("trainer", "ListRunners", ListRunnersRequest())).runners
                draft = await _first_draft(visitor, request.query_params.get("from", ""))
            except RunspineError as error:
                problem("The form cannot be shown now", str(error), "All runs", "/")
                return
            able = {info.name: info for info in runners if TRAIN in info.modes}
            if able:
                NewRun(desk, visitor, able, draft).draw()
            else:
                empty(
                    "No worker is there",
                    "A run needs a worker; the form is built from what its runners offer.",
                )


async def _first_draft(visitor: Visitor, parent: str) -> Draft:
    """The run to be forked, else what was launched last, else a good first run."""
    if parent:
        answer = await visitor.access.ask("trainer", "Get", GetRequest(run_id=parent))
        plain = to_plain(answer.run.spec, full=False)
        plain.pop("name", None)
        return from_plain(plain)
    last = app.storage.user.get("last_run")
    return from_plain(last if isinstance(last, dict) else {"runner": "builtin", **STARTERS["builtin"]})


class NewRun:
    def __init__(self, desk: Desk, visitor: Visitor, runners: dict[str, RunnerInfo], draft: Draft) -> None:
        self._desk = desk
        self._visitor = visitor
        self._runners = runners
        self._draft = draft if draft.runner in runners else Draft(runner=next(iter(runners)))
        self._changed = True
        self._checked = 0.0
        self._checks: list[Check] = []
        self._spec: RunSpec | None = None
        # The same key for every press of the same form: pressing twice launches once.
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
                ui.label("Before it starts").classes("rs-section")
                self._verdict = ui.column().classes("rs-card rs-pad w-full").props('role="status"')
                self._preview()
        self._launch.disable()
        self._draw_form()
        self._desk.heart.every(CHECK_SECONDS, self._check)

    def _preview(self) -> None:
        with ui.row().classes("w-full items-center"):
            ui.label("Run file").classes("rs-section")
            ui.space()
            ui.button("Download", icon="download", on_click=self._download).props("flat dense no-caps")
        self._yaml = block("", "rs-yaml")
        with ui.expansion("The same from a shell").classes("w-full"):
            self._command = block("", "rs-yaml")
            ui.label("The exact command of the trainer is on the run's page once it has started.").classes(
                "rs-quiet"
            )

    def _draw_form(self) -> None:
        self._form.clear()
        with self._form:
            RunForm(self._runners, self._draft, self._touch, self._restart).draw()
        self._touch()

    def _touch(self) -> None:
        self._changed = True

    def _restart(self, draft: Draft) -> None:
        """Another runner or algorithm: other fields."""
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
        """Ask the orchestrator what it thinks, a moment after the last change."""
        now = time.monotonic()
        if not self._changed and now - self._checked < AGAIN_SECONDS:
            return
        if self._changed:
            self._key = new_ulid()
        self._changed, self._checked = False, now
        text = write_yaml(self._plain())
        self._yaml.set_text(text)
        self._command.set_text(submit_command(text))
        flaws, notices, workers = [], [], list[Worker]()
        self._spec = None
        try:
            spec = parse(text, source="the form", folder=Path("/")).specs[0]
            workers = list(
                (await self._visitor.access.ask("trainer", "ListWorkers", ListWorkersRequest())).workers
            )
            answer = await self._visitor.access.ask("trainer", "Validate", ValidateRequest(spec=spec))
            self._spec, notices = spec, list(answer.notices)
        except Invalid as error:
            flaws = [f"{flaw.field}: {flaw.description}" for flaw in error.violations] or [str(error)]
        except RunspineError as error:
            flaws = [str(error)]
        self._tell(preflight(self._info, workers, self._spec, flaws, notices))

    def _tell(self, checks: list[Check]) -> None:
        self._launch.set_enabled(self._spec is not None and may_launch(checks))
        if checks == self._checks:
            return
        self._checks = checks
        self._verdict.clear()
        with self._verdict:
            for check in checks:
                icon, look = LOOKS[check.level]
                with ui.row().classes(f"items-start no-wrap gap-2 {look}"):
                    ui.icon(icon).props('aria-hidden="true"')
                    ui.label(check.text).classes("rs-lines")

    async def _submit(self) -> None:
        if self._spec is None or self._changed:
            return
        request = SubmitRequest(spec=self._spec, idempotency_key=self._key)
        try:
            answer = await self._visitor.access.ask("trainer", "Submit", request)
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
            ui.notify("Nothing was launched from here yet.", type="info")

    def _use(self, plain: dict[str, Any] | None) -> None:
        if plain is None:
            return
        draft = from_plain(plain)
        if draft.runner not in self._runners:
            ui.notify(f"No worker offers the runner {draft.runner or '(none)'}.", type="negative")
            return
        self._restart(draft)

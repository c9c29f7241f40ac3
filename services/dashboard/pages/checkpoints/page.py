"""The checkpoints page: cards by env and algorithm, the best of each first."""

from __future__ import annotations

from itertools import groupby
from urllib.parse import urlencode

from fastapi import Request
from nicegui import ui

from runspine.domain.defaults import DEFAULT_ACTOR
from runspine.errors import RunspineError
from runspine.play.actor_names import BDI, POLICY
from runspine.play.actors import AGENTS
from runspine.services.dashboard.core.artifact_address import artifact_url
from runspine.services.dashboard.pages.checkpoints.evaluate_dialog import open_evaluate_dialog
from runspine.services.dashboard.pages.checkpoints.import_dialog import open_import_dialog
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.frame import frame, page
from runspine.services.dashboard.pages.elements.integrity import integrity_badge
from runspine.services.dashboard.pages.elements.notices import empty, problem, wait_for_browser
from runspine.text.values import age, number, size
from runspine.wire.v1 import artifacts_pb2 as wire

PAGE_SIZE = 200
FOLLOW_SECONDS = 2.0
RUNS_OWN = {"best": "best of its run", "latest": "latest of its run"}
SOURCES = {"evaluation": "evaluated", "checkpoint": "reported by the trainer", "training": "during training"}


def add_checkpoints_page(context: PageContext) -> None:
    @page("/checkpoints")
    async def checkpoints(request: Request, env: str = "", algo: str = "", run: str = "") -> None:
        visitor = context.visitor(request)
        with frame(context, visitor, "Checkpoints", "/checkpoints"):
            await wait_for_browser("Loading checkpoints…")
            await CheckpointsPage(context, visitor, env, algo, run).draw()


class CheckpointsPage:
    def __init__(self, context: PageContext, visitor: Visitor, env: str, algo: str, run: str) -> None:
        self._context = context
        self._visitor = visitor
        # Position of the ARTIFACTS stream when the cards were last listed.
        self._drawn = 0
        self._query = wire.ListCheckpointsRequest(env=env, algo=algo, run=run, page_size=PAGE_SIZE)

    async def draw(self) -> None:
        with ui.row().classes("rs-bar"):
            env = _filter("Env", self._query.env)
            algo = _filter("Algorithm", self._query.algo)

            async def narrow() -> None:
                self._query.env, self._query.algo = str(env.value or ""), str(algo.value or "")
                ui.navigate.history.replace(_page_address(self._query))
                await self._refresh()

            for field in (env, algo):
                field.on("keydown.enter", narrow)
                field.on("clear", narrow)
            ui.space()
            if self._visitor.person.may_run:
                ui.button("Import", icon="upload_file", on_click=self._import).props("unelevated dense")
        self._body = ui.column().classes("w-full")
        await self._refresh()
        self._context.refresher.every(FOLLOW_SECONDS, self._follow, at_once=False)

    async def _follow(self) -> None:
        """List the cards again when the log has a new fact about any artifact."""
        if self._context.runs.artifacts.position != self._drawn:
            await self._refresh()

    async def _import(self) -> None:
        if await open_import_dialog(self._visitor):
            await self._refresh()

    async def _refresh(self) -> None:
        call = self._visitor.access.call
        position = self._context.runs.artifacts.position
        try:
            found = await call("artifacts", "ListCheckpoints", self._query)
            actors = (await call("artifacts", "ListActors", wire.ListActorsRequest())).actors
        except RunspineError as error:
            self._body.clear()
            with self._body:
                problem("The checkpoints cannot be loaded", str(error), "All runs", "/")
            return
        self._drawn = position
        self._body.clear()
        with self._body:
            if not found.cards:
                empty("No checkpoints", "Runs add them while they train; Import adds files from elsewhere.")
                return
            playing = {actor.card.artifact.digest: actor.name for actor in actors}
            cards = sorted(found.cards, key=lambda card: (card.env, card.algo))
            for (env, algo), group in groupby(cards, key=lambda card: (card.env, card.algo)):
                self._group(env, algo, list(group), playing)

    def _group(self, env: str, algo: str, cards: list[wire.CheckpointCard], playing: dict[str, str]) -> None:
        ui.label(f"{env or 'unknown env'} · {algo or 'unknown algorithm'}").classes("rs-section")
        best = f"{env}/{algo}:best"
        ordered = sorted(cards, key=lambda card: (best not in card.aliases, -card.score.mean))
        with ui.element("div").classes("rs-cards"):
            for card in ordered:
                self._card(card, best in card.aliases, playing.get(card.artifact.digest, ""))

    def _card(self, card: wire.CheckpointCard, best: bool, actor: str) -> None:
        artifact = card.artifact
        with ui.card().classes("rs-card rs-tile" + (" rs-best" if best else "")):
            with ui.row().classes("items-center gap-2"):
                if best:
                    ui.label("best").classes("rs-badge rs-running")
                integrity_badge(artifact)
                for name in card.aliases:
                    if "/" not in name:
                        ui.label(RUNS_OWN.get(name, name)).classes("rs-label")
                if actor:
                    ui.label(f"plays as {actor}").classes("rs-badge rs-queued")
            if card.HasField("score"):
                spread = f" ± {number(card.score.std, 3)}" if card.score.HasField("std") else ""
                ui.label(f"{number(card.score.mean)}{spread}").classes("rs-score")
                ui.label(_score_source(card.score)).classes("rs-quiet")
            else:
                ui.label("no score yet").classes("rs-quiet")
            details = [
                f"step {artifact.step:,}",
                card.runner,
                size(artifact.size),
                f"{age(artifact.produced_at)} ago",
            ]
            ui.label(" · ".join(each for each in details if each)).classes("rs-quiet")
            if card.source:
                ui.label(f"imported: {card.source.rpartition('/')[2]}").classes("rs-quiet")
            else:
                ui.link(card.run_name, f"/run/{artifact.run_id}").classes("rs-card-run")
            if card.obstacle:
                ui.label(card.obstacle).classes("rs-bad")
            self._actions(card)

    def _actions(self, card: wire.CheckpointCard) -> None:
        with ui.row().classes("gap-1"):
            if not card.obstacle:
                ui.button(
                    icon="download", on_click=lambda: ui.navigate.to(artifact_url(card.artifact))
                ).props('flat dense round aria-label="Download"')
            if not self._visitor.person.may_run:
                return
            evaluate = ui.button(
                "Evaluate", icon="speed", on_click=lambda: open_evaluate_dialog(self._visitor, card)
            )
            activate = ui.button("Activate", icon="smart_toy", on_click=lambda: self._activate(card))
            play = ui.button(
                "Play", icon="sports_esports", on_click=lambda: ui.navigate.to(_play_address(card))
            )
            for button in (evaluate, activate, play):
                button.props("flat dense no-caps").set_enabled(not card.obstacle)

    async def _activate(self, card: wire.CheckpointCard) -> None:
        with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
            ui.label("Activate this checkpoint for an actor").classes("text-lg")
            actor = ui.input("Actor", value=DEFAULT_ACTOR).classes("w-full").props("autofocus")
            env = ui.input("Required env", value=card.env).classes("w-full")
            trouble = ui.label().classes("rs-bad rs-lines").props('role="alert"')

            async def start() -> None:
                request = wire.ActivateRequest(
                    actor=actor.value or "", reference=card.artifact.digest, env=env.value or ""
                )
                try:
                    await self._visitor.access.call("artifacts", "Activate", request, 60.0)
                except RunspineError as error:
                    trouble.set_text(f"{error}\nNothing changed: the actor keeps its checkpoint.")
                    return
                dialog.submit(True)

            with ui.row():
                ui.button("Back", on_click=lambda: dialog.submit(False)).props("flat")
                ui.button("Activate", on_click=start)
        if await dialog:
            ui.notify("Activated.", type="positive")
            await self._refresh()


def _score_source(score: wire.CardScore) -> str:
    """Where the score comes from."""
    over = f", {score.episodes:,} episodes" if score.episodes else ""
    return f"mean return, {SOURCES.get(score.source, score.source)}{over}"


def _filter(name: str, value: str) -> ui.input:
    field = ui.input(placeholder=f"{name}… (Enter)", value=value)
    return field.props(f'dense outlined clearable aria-label="{name}"')


def _play_address(card: wire.CheckpointCard) -> str:
    kind = BDI if card.runner in AGENTS else POLICY
    return f"/play?{urlencode({'env': card.env, 'actor': f'{kind}:{card.artifact.digest}'})}"


def _page_address(query: wire.ListCheckpointsRequest) -> str:
    params = {"env": query.env, "algo": query.algo, "run": query.run}
    return f"/checkpoints?{urlencode({name: value for name, value in params.items() if value})}"

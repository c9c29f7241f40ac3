"""What can be loaded: cards by env and algorithm, the best of each first."""

from __future__ import annotations

from itertools import groupby

from fastapi import Request
from nicegui import ui

from runspine.cli.text import age, number, size
from runspine.errors import RunspineError
from runspine.wire.v1 import artifacts_pb2 as wire
from services.dashboard.pages.checkpoint_import import ask_import
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.evaluating import ask_evaluation
from services.dashboard.pages.frame import frame, page
from services.dashboard.pages.integrity import integrity_badge
from services.dashboard.pages.notices import empty, problem, until_open
from services.dashboard.pages.run_files import address

PAGE = 200
RUNS_OWN = {"best": "best of its run", "latest": "latest of its run"}
SOURCES = {"evaluation": "evaluated", "checkpoint": "as the trainer said", "training": "while it trained"}


def add_checkpoints_page(desk: Desk) -> None:
    @page("/checkpoints")
    async def checkpoints(request: Request, env: str = "", algo: str = "", run: str = "") -> None:
        visitor = desk.visitor(request)
        with frame(desk, visitor, "Checkpoints", "/checkpoints"):
            await until_open("Looking for checkpoints…")
            await CheckpointsPage(visitor, env, algo, run).draw()


class CheckpointsPage:
    def __init__(self, visitor: Visitor, env: str, algo: str, run: str) -> None:
        self._visitor = visitor
        self._asked = wire.ListCheckpointsRequest(env=env, algo=algo, run=run, page_size=PAGE)

    async def draw(self) -> None:
        with ui.row().classes("rs-bar"):
            env = _filter("Env", self._asked.env)
            algo = _filter("Algorithm", self._asked.algo)

            async def narrow() -> None:
                self._asked.env, self._asked.algo = str(env.value or ""), str(algo.value or "")
                ui.navigate.history.replace(_here(self._asked))
                await self._look()

            for field in (env, algo):
                field.on("keydown.enter", narrow)
                field.on("clear", narrow)
            ui.space()
            if self._visitor.person.may_run:
                ui.button("Import", icon="upload_file", on_click=self._import).props("unelevated dense")
        self._body = ui.column().classes("w-full")
        await self._look()

    async def _import(self) -> None:
        if await ask_import(self._visitor):
            await self._look()

    async def _look(self) -> None:
        ask = self._visitor.access.ask
        self._body.clear()
        with self._body:
            try:
                found = await ask("artifacts", "ListCheckpoints", self._asked)
                actors = (await ask("artifacts", "ListActors", wire.ListActorsRequest())).actors
            except RunspineError as error:
                problem("The checkpoints cannot be shown now", str(error), "All runs", "/")
                return
            if not found.cards:
                empty(
                    "No checkpoints", "Runs leave them here as they train; Import takes them from elsewhere."
                )
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
                ui.label(_whose(card.score)).classes("rs-quiet")
            else:
                ui.label("no score yet").classes("rs-quiet")
            said = [
                f"step {artifact.step:,}",
                card.runner,
                size(artifact.size),
                f"{age(artifact.produced_at)} ago",
            ]
            ui.label(" · ".join(word for word in said if word)).classes("rs-quiet")
            if card.source:
                ui.label(f"imported: {card.source.rpartition('/')[2]}").classes("rs-quiet")
            else:
                ui.link(card.run_name, f"/run/{artifact.run_id}").classes("rs-card-run")
            if card.obstacle:
                ui.label(card.obstacle).classes("rs-bad")
            self._acts(card)

    def _acts(self, card: wire.CheckpointCard) -> None:
        with ui.row().classes("gap-1"):
            if not card.obstacle:
                ui.button(icon="download", on_click=lambda: ui.navigate.to(address(card.artifact))).props(
                    'flat dense round aria-label="Download"'
                )
            if not self._visitor.person.may_run:
                return
            evaluate = ui.button(
                "Evaluate", icon="speed", on_click=lambda: ask_evaluation(self._visitor, card)
            )
            activate = ui.button("Activate", icon="smart_toy", on_click=lambda: self._activate(card))
            for button in (evaluate, activate):
                button.props("flat dense no-caps").set_enabled(not card.obstacle)

    async def _activate(self, card: wire.CheckpointCard) -> None:
        with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
            ui.label("Let an actor play with it").classes("text-lg")
            actor = ui.input("Actor", value="default").classes("w-full").props("autofocus")
            env = ui.input("Only if it is for this env", value=card.env).classes("w-full")
            trouble = ui.label().classes("rs-bad rs-lines").props('role="alert"')

            async def start() -> None:
                request = wire.ActivateRequest(
                    actor=actor.value or "", reference=card.artifact.digest, env=env.value or ""
                )
                try:
                    await self._visitor.access.ask("artifacts", "Activate", request, 60.0)
                except RunspineError as error:
                    trouble.set_text(f"{error}\nNothing changed: the actor keeps what it had.")
                    return
                dialog.submit(True)

            with ui.row():
                ui.button("Back", on_click=lambda: dialog.submit(False)).props("flat")
                ui.button("Activate", on_click=start)
        if await dialog:
            ui.notify("Activated.", type="positive")
            await self._look()


def _whose(score: wire.CardScore) -> str:
    """Who says how well it does."""
    over = f", {score.episodes:,} episodes" if score.episodes else ""
    return f"mean return, {SOURCES.get(score.source, score.source)}{over}"


def _filter(name: str, value: str) -> ui.input:
    field = ui.input(placeholder=f"{name}… (Enter)", value=value)
    return field.props(f'dense outlined clearable aria-label="{name}"')


def _here(asked: wire.ListCheckpointsRequest) -> str:
    from urllib.parse import urlencode

    said = {"env": asked.env, "algo": asked.algo, "run": asked.run}
    return f"/checkpoints?{urlencode({name: value for name, value in said.items() if value})}"

"""The play page: start a session with one actor, or two side by side on the same seeds."""

from __future__ import annotations

import time

from fastapi import Request
from nicegui import app, ui

from runspine.errors import RunspineError
from runspine.ids import is_ulid, new_ulid
from runspine.play.actors import ActorInfo, first_actor
from runspine.play.play_spec import RUNNER, play_spec
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.elements.frame import frame, page
from runspine.services.dashboard.pages.elements.notices import empty, problem
from runspine.services.dashboard.pages.play.player import actor_title, draw_player, list_actors
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import PLAY, Play
from runspine.wire.v1.trainer_pb2 import GetRequest, ListRunnersRequest, SubmitRequest

FIRST_ENV = "CartPole-v1"
NOBODY = "none"
MAX_SIDES = 4
TURNS = {"auto": "default of the env", "turns": "each step waits for a key", "time": "in real time"}


def add_play_page(context: PageContext) -> None:
    @page("/play")
    async def play(request: Request, runs: str = "", env: str = "", actor: str = "") -> None:
        visitor = context.visitor(request)
        with frame(context, visitor, "Play", "/play"):
            try:
                if runs:
                    await _side_by_side(context, visitor, runs.split(",")[:MAX_SIDES])
                elif not visitor.person.may_run:
                    remedy = "Log in with a token of scope run to play. Existing sessions can be watched."
                    problem("This token is read-only", remedy, "All runs", "/")
                else:
                    await _form(visitor, env, actor)
            except RunspineError as error:
                problem("The page cannot be loaded", str(error), "All runs", "/")


async def _side_by_side(context: PageContext, visitor: Visitor, run_ids: list[str]) -> None:
    with ui.element("div").classes("rs-sides"):
        for run_id in filter(is_ulid, run_ids):
            run: Run = (await visitor.access.call("trainer", "Get", GetRequest(run_id=run_id))).run
            with ui.element("section").classes("rs-card rs-side"):
                with ui.row().classes("items-center gap-3"):
                    ui.link(run.name, f"/run/{run.id}?tab=play").classes("rs-run-name")
                    ui.label(f"seed {run.spec.seed}").classes("rs-quiet")
                await draw_player(context, visitor, run)


async def _form(visitor: Visitor, env: str, actor: str) -> None:
    runners = (await visitor.access.call("trainer", "ListRunners", ListRunnersRequest())).runners
    runner = next((info for info in runners if info.name == RUNNER and PLAY in info.modes), None)
    if runner is None:
        empty("No worker available", "A play session needs a worker with the builtin runner.")
        return
    await PlayForm(visitor, sorted(runner.envs), env, actor).draw()


class PlayForm:
    def __init__(self, visitor: Visitor, envs: list[str], env: str, actor: str) -> None:
        self._visitor = visitor
        self._envs = envs
        self._asked = actor
        last = app.storage.user.get("last_play", FIRST_ENV)
        self._first = next((each for each in (env, last, FIRST_ENV) if each in envs), envs[0] if envs else "")
        self._key = new_ulid()

    async def draw(self) -> None:
        with ui.element("section").classes("rs-card rs-play-form"):
            ui.label("Play").classes("text-lg")
            ui.label(
                "Control an env with the keyboard, let a policy act, or switch between them in mid-episode. "
                "Every step is recorded with its actor: replay it, export it, train on it."
            ).classes("rs-quiet")
            self._env = ui.select(self._envs, label="Environment", value=self._first, with_input=True)
            self._actor = ui.select({}, label="Actor")
            self._versus = ui.select({}, label="Second actor, on the same seeds")
            self._turns = ui.select(TURNS, label="Stepping", value="auto")
            self._seed = ui.number("Seed", value=1, min=0, precision=0)
            self._episodes = ui.number("Episodes (empty: until cancelled)", min=1, max=1_000_000, precision=0)
            self._trouble = ui.label().classes("rs-bad rs-lines").props('role="alert"')
            ui.button("Play", icon="sports_esports", on_click=self._start)
        self._env.on_value_change(self._offer_actors)
        await self._offer_actors()

    async def _offer_actors(self) -> None:
        """Offer the actors that fit the selected env."""
        found: list[ActorInfo] = await list_actors(self._visitor, str(self._env.value or ""))
        titles = {actor.name: actor_title(actor) for actor in found}
        last = app.storage.user.get("last_actors", {}).get(self._env.value, "")
        self._actor.set_options(titles, value=first_actor(found, self._asked, last))
        others = {NOBODY: NOBODY, **titles}
        kept = str(self._versus.value)
        self._versus.set_options(others, value=kept if kept in others else NOBODY)

    async def _start(self) -> None:
        try:
            runs = [await self._submit(actor) for actor in self._chosen()]
        except RunspineError as error:
            self._trouble.set_text(str(error))
            return
        app.storage.user["last_play"] = self._env.value
        app.storage.user.setdefault("last_actors", {})[str(self._env.value)] = str(self._actor.value)
        several = f"/play?runs={','.join(runs)}"
        ui.navigate.to(several if len(runs) > 1 else f"/run/{runs[0]}?tab=play")

    def _chosen(self) -> list[str]:
        second = str(self._versus.value)
        return [str(self._actor.value), *([second] if second != NOBODY else [])]

    async def _submit(self, actor: str) -> str:
        play = Play(actor=actor, episodes=int(self._episodes.value or 0))
        if self._turns.value != "auto":
            play.turn_based = self._turns.value == "turns"
        spec = play_spec(str(self._env.value), play, now=int(time.time()), seed=int(self._seed.value or 0))
        if self._versus.value != NOBODY:
            spec.labels["versus"] = self._key
        request = SubmitRequest(spec=spec, idempotency_key=new_ulid())
        return str((await self._visitor.access.call("trainer", "Submit", request)).run.id)

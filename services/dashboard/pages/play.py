"""Play: choose an env and who acts, alone or two side by side on the same seeds."""

from __future__ import annotations

import time

from fastapi import Request
from nicegui import app, ui

from runspine.actors import ActorInfo
from runspine.errors import RunspineError
from runspine.ids import is_ulid, new_ulid
from runspine.playing import RUNNER, play_spec
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import PLAY, Play
from runspine.wire.v1.trainer_pb2 import GetRequest, ListRunnersRequest, SubmitRequest
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.frame import frame, page
from services.dashboard.pages.notices import empty, problem
from services.dashboard.pages.player import actors_for, draw_player, title_of

FIRST_ENV = "CartPole-v1"
NOBODY = "nobody"
MOST_SIDES = 4
TURNS = {"auto": "as the env is", "turns": "each step waits for a key", "time": "in real time"}


def add_play_page(desk: Desk) -> None:
    @page("/play")
    async def play(request: Request, runs: str = "", env: str = "") -> None:
        visitor = desk.visitor(request)
        with frame(desk, visitor, "Play", "/play"):
            try:
                if runs:
                    await _side_by_side(desk, visitor, runs.split(",")[:MOST_SIDES])
                elif not visitor.person.may_run:
                    why = "Log in with a token of scope run to play. Sessions of others can be watched."
                    problem("This token may only look", why, "All runs", "/")
                else:
                    await _form(visitor, env)
            except RunspineError as error:
                problem("This cannot be shown now", str(error), "All runs", "/")


async def _side_by_side(desk: Desk, visitor: Visitor, run_ids: list[str]) -> None:
    with ui.element("div").classes("rs-sides"):
        for run_id in filter(is_ulid, run_ids):
            run: Run = (await visitor.access.ask("trainer", "Get", GetRequest(run_id=run_id))).run
            with ui.element("section").classes("rs-card rs-side"):
                with ui.row().classes("items-center gap-3"):
                    ui.link(run.name, f"/run/{run.id}?tab=play").classes("rs-run-name")
                    ui.label(f"seed {run.spec.seed}").classes("rs-quiet")
                await draw_player(desk, visitor, run)


async def _form(visitor: Visitor, env: str) -> None:
    runners = (await visitor.access.ask("trainer", "ListRunners", ListRunnersRequest())).runners
    able = next((info for info in runners if info.name == RUNNER and PLAY in info.modes), None)
    if able is None:
        empty("No worker is there", "A session needs a worker with the builtin runner.")
        return
    await PlayForm(visitor, sorted(able.envs), env).draw()


class PlayForm:
    def __init__(self, visitor: Visitor, envs: list[str], env: str) -> None:
        self._visitor = visitor
        self._envs = envs
        last = app.storage.user.get("last_play", FIRST_ENV)
        self._first = next((each for each in (env, last, FIRST_ENV) if each in envs), envs[0] if envs else "")
        self._key = new_ulid()

    async def draw(self) -> None:
        with ui.element("section").classes("rs-card rs-play-form"):
            ui.label("Play").classes("text-lg")
            ui.label(
                "Steer an env with the keyboard, let a policy act, or hand over in mid-episode. "
                "Every step is recorded with who acted: replay it, export it, learn from it."
            ).classes("rs-quiet")
            self._env = ui.select(self._envs, label="Environment", value=self._first, with_input=True)
            self._actor = ui.select({}, label="Who acts")
            self._versus = ui.select({}, label="Beside it, on the same seeds")
            self._turns = ui.select(TURNS, label="Steps", value="auto")
            self._seed = ui.number("Seed", value=1, min=0, precision=0)
            self._episodes = ui.number("Episodes (empty: until cancelled)", min=1, max=1_000_000, precision=0)
            self._trouble = ui.label().classes("rs-bad rs-lines").props('role="alert"')
            ui.button("Play", icon="sports_esports", on_click=self._start)
        self._env.on_value_change(self._cast)
        await self._cast()

    async def _cast(self) -> None:
        """Only who fits is offered."""
        found: list[ActorInfo] = await actors_for(self._visitor, str(self._env.value or ""))
        titles = {actor.name: title_of(actor) for actor in found}
        self._actor.set_options(titles, value=self._kept(self._actor.value, titles, "human"))
        others = {NOBODY: NOBODY, **titles}
        self._versus.set_options(others, value=self._kept(self._versus.value, others, NOBODY))

    def _kept(self, value: object, titles: dict[str, str], other: str) -> str:
        return str(value) if value in titles else other

    async def _start(self) -> None:
        try:
            runs = [await self._submit(actor) for actor in self._chosen()]
        except RunspineError as error:
            self._trouble.set_text(str(error))
            return
        app.storage.user["last_play"] = self._env.value
        several = f"/play?runs={','.join(runs)}"
        ui.navigate.to(several if len(runs) > 1 else f"/run/{runs[0]}?tab=play")

    def _chosen(self) -> list[str]:
        beside = str(self._versus.value)
        return [str(self._actor.value), *([beside] if beside != NOBODY else [])]

    async def _submit(self, actor: str) -> str:
        play = Play(actor=actor, episodes=int(self._episodes.value or 0))
        if self._turns.value != "auto":
            play.turn_based = self._turns.value == "turns"
        spec = play_spec(str(self._env.value), play, now=int(time.time()), seed=int(self._seed.value or 0))
        if self._versus.value != NOBODY:
            spec.labels["versus"] = self._key
        request = SubmitRequest(spec=spec, idempotency_key=new_ulid())
        return str((await self._visitor.access.ask("trainer", "Submit", request)).run.id)

"""Play or train on from a step of a recorded episode."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nicegui import ui

from runspine.actors import ActorInfo
from runspine.errors import RunspineError
from runspine.forking import begin_at, fork_point
from runspine.ids import new_ulid
from runspine.playing import RUNNER, kwargs_of, play_spec
from runspine.replay.record import Record
from runspine.wire.v1.spec_pb2 import Play, RunSpec
from runspine.wire.v1.telemetry_pb2 import GetEpisodeRequest, GetEpisodeResponse
from runspine.wire.v1.trainer_pb2 import SubmitRequest
from services.dashboard.core.forks import algos_for
from services.dashboard.pages.desk import Visitor
from services.dashboard.pages.player import actors_for, title_of

# Where the scrubber stands: frame n is what was seen after n steps.
HERE = "return Number(document.querySelector('.rs-scrub')?.value ?? 0)"
PLAY, TRAIN = "play", "train"
WAYS = {PLAY: "Play on", TRAIN: "Train on"}
FIRST_STEPS = 50_000


async def ask_fork(visitor: Visitor, run_id: str, index: int) -> None:
    """A dialog, then the new run's page."""
    here = int(await ui.run_javascript(HERE) or 0)
    request = GetEpisodeRequest(run_id=run_id, index=index)
    try:
        said: GetEpisodeResponse = await visitor.access.ask("telemetry", "GetEpisode", request)
        actors = await actors_for(visitor, said.env.env_id)
    except RunspineError as error:
        ui.notify(str(error), type="negative", multi_line=True)
        return
    dialog = ForkDialog(visitor, run_id, said, actors)
    if child := await dialog.draw(here):
        ui.navigate.to(child)


class ForkDialog:
    def __init__(
        self, visitor: Visitor, run_id: str, said: GetEpisodeResponse, actors: Sequence[ActorInfo]
    ) -> None:
        self._visitor, self._run_id, self._said = visitor, run_id, said
        self._record = Record(said)
        self._actors = {actor.name: title_of(actor) for actor in actors}
        self._algos = algos_for(self._record)

    def draw(self, here: int) -> ui.dialog:
        """To be awaited: the path of the new run's page, or nothing."""
        index, length = self._said.entry.index, self._record.length
        last = max(0, length - 1)
        with ui.dialog() as self._dialog, ui.card().classes("rs-dialog"):
            ui.label(f"Go on from episode {index}").classes("text-lg")
            ui.label(f"Its first steps are played again exactly; it has {length:,}.").classes("rs-quiet")
            self._step = ui.number("Step", value=min(here, last), min=0, max=last, precision=0)
            self._way = ui.toggle(WAYS, value=PLAY).props("no-caps")
            with ui.column().classes("w-full gap-2") as playing:
                self._actor = ui.select(self._actors, label="Who goes on", value="human").classes("w-full")
            with ui.column().classes("w-full gap-2") as training:
                self._draw_training()
            playing.bind_visibility_from(self._way, "value", value=PLAY)
            training.bind_visibility_from(self._way, "value", value=TRAIN)
            self._trouble = ui.label().classes("rs-bad rs-lines").props('role="alert"')
            with ui.row():
                ui.button("Back", on_click=lambda: self._dialog.submit("")).props("flat")
                ui.button("Start", icon="call_split", on_click=self._start)
        return self._dialog

    def _draw_training(self) -> None:
        self._algo = ui.select(self._algos, label="Algorithm", value=self._algos[0]).classes("w-full")
        self._steps = ui.number("Steps to train", value=FIRST_STEPS, min=1, precision=0).classes("w-full")
        self._every = ui.checkbox("Every episode begins there, not the first alone")

    async def _start(self) -> None:
        try:
            spec = self._spec()
            submit = SubmitRequest(spec=spec, idempotency_key=new_ulid())
            answer = await self._visitor.access.ask("trainer", "Submit", submit)
        except RunspineError as error:
            self._trouble.set_text(str(error))
            return
        tab = "?tab=play" if spec.HasField("play") else ""
        self._dialog.submit(f"/run/{answer.run.id}{tab}")

    def _spec(self) -> RunSpec:
        """Raises Invalid."""
        point = fork_point(self._run_id, self._said, int(self._step.value or 0))
        if self._way.value == PLAY:
            play = Play(actor=str(self._actor.value), fork=point)
            kwargs = kwargs_of(self._record)
            return play_spec(self._said.env.env_id, play, now=int(time.time()), env_kwargs=kwargs)
        point.every = bool(self._every.value)
        spec = RunSpec(runner=RUNNER, algo=str(self._algo.value), total_steps=int(self._steps.value or 0))
        begin_at(spec, point, self._record)
        return spec

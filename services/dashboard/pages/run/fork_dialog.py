"""The dialog that forks a play session or a training run from a step of a recorded episode."""

from __future__ import annotations

import time
from collections.abc import Sequence

from nicegui import ui

from runspine.errors import RunspineError
from runspine.ids import new_ulid
from runspine.play.actors import ActorInfo
from runspine.play.fork import fork_point, start_at_fork
from runspine.play.play_spec import RUNNER, kwargs_of, play_spec
from runspine.replay.record import EpisodeRecord
from runspine.services.dashboard.core.forks import algos_for
from runspine.services.dashboard.pages.elements.context import Visitor
from runspine.services.dashboard.pages.play.player import actor_title, list_actors
from runspine.wire.v1.spec_pb2 import Play, RunSpec
from runspine.wire.v1.telemetry_pb2 import GetEpisodeRequest, GetEpisodeResponse
from runspine.wire.v1.trainer_pb2 import SubmitRequest

# The position of the scrubber: frame n follows n steps.
SCRUBBER_POSITION = "return Number(document.querySelector('.rs-scrub')?.value ?? 0)"
PLAY, TRAIN = "play", "train"
MODES = {PLAY: "Play", TRAIN: "Train"}
DEFAULT_STEPS = 50_000


async def open_fork_dialog(visitor: Visitor, run_id: str, index: int) -> None:
    """Show the dialog, then open the page of the new run."""
    position = int(await ui.run_javascript(SCRUBBER_POSITION) or 0)
    request = GetEpisodeRequest(run_id=run_id, index=index)
    try:
        episode: GetEpisodeResponse = await visitor.access.call("telemetry", "GetEpisode", request)
        actors = await list_actors(visitor, episode.env.env_id)
    except RunspineError as error:
        ui.notify(str(error), type="negative", multi_line=True)
        return
    dialog = ForkDialog(visitor, run_id, episode, actors)
    if child := await dialog.draw(position):
        ui.navigate.to(child)


class ForkDialog:
    def __init__(
        self, visitor: Visitor, run_id: str, episode: GetEpisodeResponse, actors: Sequence[ActorInfo]
    ) -> None:
        self._visitor, self._run_id, self._episode = visitor, run_id, episode
        self._record = EpisodeRecord(episode)
        self._actors = {actor.name: actor_title(actor) for actor in actors}
        self._algos = algos_for(self._record)

    def draw(self, position: int) -> ui.dialog:
        """Await the dialog for the path of the new run's page; empty when it was closed."""
        index, length = self._episode.entry.index, self._record.length
        last = max(0, length - 1)
        with ui.dialog() as self._dialog, ui.card().classes("rs-dialog"):
            ui.label(f"Fork from episode {index}").classes("text-lg")
            ui.label(f"The steps before it are replayed exactly. The episode has {length:,} steps.").classes(
                "rs-quiet"
            )
            self._step = ui.number("Step", value=min(position, last), min=0, max=last, precision=0)
            self._mode = ui.toggle(MODES, value=PLAY).props("no-caps")
            with ui.column().classes("w-full gap-2") as playing:
                self._actor = ui.select(self._actors, label="Actor", value="human").classes("w-full")
            with ui.column().classes("w-full gap-2") as training:
                self._draw_training()
            playing.bind_visibility_from(self._mode, "value", value=PLAY)
            training.bind_visibility_from(self._mode, "value", value=TRAIN)
            self._trouble = ui.label().classes("rs-bad rs-lines").props('role="alert"')
            with ui.row():
                ui.button("Back", on_click=lambda: self._dialog.submit("")).props("flat")
                ui.button("Start", icon="call_split", on_click=self._start)
        return self._dialog

    def _draw_training(self) -> None:
        self._algo = ui.select(self._algos, label="Algorithm", value=self._algos[0]).classes("w-full")
        self._steps = ui.number("Steps to train", value=DEFAULT_STEPS, min=1, precision=0).classes("w-full")
        self._every = ui.checkbox("Start every episode there, not only the first")

    async def _start(self) -> None:
        try:
            spec = self._spec()
            submit = SubmitRequest(spec=spec, idempotency_key=new_ulid())
            answer = await self._visitor.access.call("trainer", "Submit", submit)
        except RunspineError as error:
            self._trouble.set_text(str(error))
            return
        tab = "?tab=play" if spec.HasField("play") else ""
        self._dialog.submit(f"/run/{answer.run.id}{tab}")

    def _spec(self) -> RunSpec:
        """Raises InvalidError."""
        point = fork_point(self._run_id, self._episode, int(self._step.value or 0))
        if self._mode.value == PLAY:
            play = Play(actor=str(self._actor.value), fork=point)
            kwargs = kwargs_of(self._record)
            return play_spec(self._episode.env.env_id, play, now=int(time.time()), env_kwargs=kwargs)
        point.every = bool(self._every.value)
        spec = RunSpec(runner=RUNNER, algo=str(self._algo.value), total_steps=int(self._steps.value or 0))
        start_at_fork(spec, point, self._record)
        return spec

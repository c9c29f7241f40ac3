"""Play on from a step of a recorded episode, with whoever you like."""

from __future__ import annotations

import time

from nicegui import ui

from runspine.errors import RunspineError
from runspine.forking import fork_point
from runspine.ids import new_ulid
from runspine.playing import kwargs_of, play_spec
from runspine.replay.record import Record
from runspine.wire.v1.spec_pb2 import Play
from runspine.wire.v1.telemetry_pb2 import GetEpisodeRequest, GetEpisodeResponse
from runspine.wire.v1.trainer_pb2 import SubmitRequest
from services.dashboard.pages.desk import Visitor
from services.dashboard.pages.player import actors_for, title_of

# Where the scrubber stands: frame n is what was seen after n steps.
HERE = "return Number(document.querySelector('.rs-scrub')?.value ?? 0)"


async def ask_fork(visitor: Visitor, run_id: str, index: int) -> None:
    """A dialog, then the new session's page."""
    here = int(await ui.run_javascript(HERE) or 0)
    request = GetEpisodeRequest(run_id=run_id, index=index)
    try:
        said: GetEpisodeResponse = await visitor.access.ask("telemetry", "GetEpisode", request)
        actors = await actors_for(visitor, said.env.env_id)
    except RunspineError as error:
        ui.notify(str(error), type="negative", multi_line=True)
        return
    record = Record(said)
    last = max(0, record.length - 1)
    with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
        ui.label(f"Play on from episode {index}").classes("text-lg")
        ui.label(f"Its first steps are played again exactly; it has {record.length:,}.").classes("rs-quiet")
        step = ui.number("Step", value=min(here, last), min=0, max=last, precision=0).classes("w-full")
        names = {actor.name: title_of(actor) for actor in actors}
        actor = ui.select(names, label="Who goes on", value="human").classes("w-full")
        trouble = ui.label().classes("rs-bad rs-lines").props('role="alert"')

        async def start() -> None:
            try:
                point = fork_point(run_id, said, int(step.value or 0))
                play = Play(actor=str(actor.value), fork=point)
                spec = play_spec(said.env.env_id, play, now=int(time.time()), env_kwargs=kwargs_of(record))
                submit = SubmitRequest(spec=spec, idempotency_key=new_ulid())
                answer = await visitor.access.ask("trainer", "Submit", submit)
            except RunspineError as error:
                trouble.set_text(str(error))
                return
            dialog.submit(answer.run.id)

        with ui.row():
            ui.button("Back", on_click=lambda: dialog.submit("")).props("flat")
            ui.button("Play on", icon="call_split", on_click=start)
    if child := await dialog:
        ui.navigate.to(f"/run/{child}?tab=play")

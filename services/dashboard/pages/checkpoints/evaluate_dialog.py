"""The dialog that submits an evaluation of a checkpoint."""

from __future__ import annotations

import time

from nicegui import app, ui

from runspine.errors import RunspineError
from runspine.ids import new_ulid
from runspine.services.dashboard.core.evaluation import evaluation_spec
from runspine.services.dashboard.pages.elements.context import Visitor
from runspine.wire.v1.artifacts_pb2 import CheckpointCard
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import GetRequest, ListRunnersRequest, SubmitRequest


async def open_evaluate_dialog(visitor: Visitor, card: CheckpointCard) -> None:
    """Show the dialog, then open the page of the submitted run."""
    last = app.storage.user.get("last_evaluation", {})
    with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
        ui.label("Evaluate this checkpoint").classes("text-lg")
        ui.label(
            f"{card.algo or 'policy'} of {card.run_name or card.source}, step {card.artifact.step:,}"
        ).classes("rs-quiet")
        env = ui.input("Environment", value=card.env).classes("w-full")
        episodes = (
            ui.number("Episodes", value=last.get("episodes", 20), min=1, max=10_000, precision=0)
            .classes("w-full")
            .props("autofocus")
        )
        stochastic = ui.switch("Sample actions (stochastic policy)", value=last.get("stochastic", False))
        other = ui.switch("Allow another env")
        trouble = ui.label().classes("rs-bad rs-lines").props('role="alert"')

        async def start() -> None:
            wanted = str(env.value or "")
            if wanted != card.env and card.env and not other.value:
                trouble.set_text(
                    f"This checkpoint was trained in {card.env}. Enter that, or switch on "
                    "Allow another env if the spaces are the same."
                )
                return
            try:
                run_id = await _submit(visitor, card, wanted, int(episodes.value or 20), stochastic.value)
            except RunspineError as error:
                trouble.set_text(str(error))
                return
            app.storage.user["last_evaluation"] = {"episodes": episodes.value, "stochastic": stochastic.value}
            dialog.submit(run_id)

        with ui.row():
            ui.button("Back", on_click=lambda: dialog.submit("")).props("flat")
            ui.button("Evaluate", icon="speed", on_click=start)
    run_id = await dialog
    if run_id:
        ui.navigate.to(f"/run/{run_id}?tab=evaluations")


async def _submit(visitor: Visitor, card: CheckpointCard, env: str, episodes: int, stochastic: bool) -> str:
    call = visitor.access.call
    runners = (await call("trainer", "ListRunners", ListRunnersRequest())).runners
    trained: RunSpec | None = None
    if not card.source:
        trained = (await call("trainer", "Get", GetRequest(run_id=card.artifact.run_id))).run.spec
    spec = evaluation_spec(
        card,
        runners,
        now=int(time.time()),
        env=env,
        episodes=episodes,
        stochastic=stochastic,
        trained=trained,
    )
    answer = await call("trainer", "Submit", SubmitRequest(spec=spec, idempotency_key=new_ulid()))
    return str(answer.run.id)

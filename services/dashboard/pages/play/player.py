"""The player of a play session: frames, keys and actors."""

from __future__ import annotations

from collections.abc import Sequence

from nicegui import ui
from nicegui.element import Element

from runspine.domain.run import ENDED
from runspine.errors import RunspineError
from runspine.play.actors import ActorInfo, actors_of
from runspine.services.dashboard.assets import STATIC
from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.spec.plain import enum_word
from runspine.text.values import number
from runspine.wire.v1.artifacts_pb2 import ListActorsRequest, ListCheckpointsRequest
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.trainer_pb2 import ListRunnersRequest

# Policies that the menu offers, the best of all; the service lists by algorithm.
MAX_POLICIES, MAX_CARDS = 50, 1_000
# Active runs add checkpoints that can act.
ACTORS_REFRESH_SECONDS = 10.0


class PlayView(Element, component=STATIC / "play.js"):
    """The component play.js, which sends keys and receives frames over its own web socket."""

    def __init__(self, run: Run, trouble: str, *, may: bool, actors: Sequence[ActorInfo]) -> None:
        super().__init__()
        self._props["run"], self._props["title"], self._props["may"] = run.id, run.name, may
        self.set_actors(actors)
        self.set_run(run, trouble)

    def set_actors(self, actors: Sequence[ActorInfo]) -> None:
        self._set(actors=[{"name": actor.name, "title": actor_title(actor)} for actor in actors])

    def set_run(self, run: Run, trouble: str) -> None:
        phase = enum_word(Phase.DESCRIPTOR, run.phase)
        self._set(phase=phase, ended=run.phase in ENDED, trouble=trouble)

    def _set(self, **props: object) -> None:
        if any(self._props.get(name) != value for name, value in props.items()):
            self._props.update(props)
            self.update()


async def draw_player(context: PageContext, visitor: Visitor, run: Run) -> None:
    """Draw the player and keep its run and actors up to date while the page is open."""
    actors = await list_actors(visitor, run.spec.env)
    view = PlayView(run, context.live.trouble, may=visitor.person.may_run, actors=actors)

    def refresh() -> None:
        entry = context.runs.table.get(run.id)
        view.set_run(entry.run if entry is not None else run, context.live.trouble)

    async def refresh_actors() -> None:
        view.set_actors(await list_actors(visitor, run.spec.env))

    ui.timer(0.5, refresh)
    ui.timer(ACTORS_REFRESH_SECONDS, refresh_actors)


async def list_actors(visitor: Visitor, env: str) -> list[ActorInfo]:
    """Actors for the env; without the artifacts service only those that need no checkpoint."""
    call = visitor.access.call
    offered: list[str] = []
    try:
        runners = (await call("trainer", "ListRunners", ListRunnersRequest())).runners
        offered = [name for info in runners for name in info.actors]
        cards = await call(
            "artifacts", "ListCheckpoints", ListCheckpointsRequest(env=env, page_size=MAX_CARDS)
        )
        named = await call("artifacts", "ListActors", ListActorsRequest(env=env))
    except RunspineError:
        return actors_of((), (), env, offered)
    found = actors_of(cards.cards, named.actors, env, offered)
    anywhere = [actor for actor in found if not actor.env]
    return [*anywhere, *[actor for actor in found if actor.env][:MAX_POLICIES]]


def actor_title(actor: ActorInfo) -> str:
    if actor.kind not in ("policy", "bdi"):
        return actor.title
    parts = [*actor.activated, actor.title]
    if actor.score is not None:
        parts.append(f"return {number(actor.score)}")
    return " · ".join([*parts, actor.name.partition(":")[2][:8]])

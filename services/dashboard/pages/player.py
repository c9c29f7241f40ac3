"""A play session in the page: its picture, its keys, and who acts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from nicegui import ui
from nicegui.element import Element

from runspine.actors import ANYBODY, ActorInfo, actors_of
from runspine.cli.text import number
from runspine.errors import RunspineError
from runspine.plain import enum_word
from runspine.run import ENDED
from runspine.wire.v1.artifacts_pb2 import ListActorsRequest, ListCheckpointsRequest
from runspine.wire.v1.run_pb2 import Phase, Run
from services.dashboard.pages.desk import Desk, Visitor

STATIC = Path(__file__).parents[1] / "static"
# Policies in a menu: beyond that nobody reads it.
MOST_POLICIES = 50
# Checkpoints of a run that goes on, and of others.
AGAIN_SECONDS = 10.0


class PlayView(Element, component=STATIC / "play.js"):
    """Frames and keys travel over a web socket of the component's own."""

    def __init__(self, run: Run, trouble: str, *, may: bool, actors: Sequence[ActorInfo]) -> None:
        super().__init__()
        self._props["run"], self._props["title"], self._props["may"] = run.id, run.name, may
        self.cast(actors)
        self.tell(run, trouble)

    def cast(self, actors: Sequence[ActorInfo]) -> None:
        self._say(actors=[{"name": actor.name, "title": title_of(actor)} for actor in actors])

    def tell(self, run: Run, trouble: str) -> None:
        phase = enum_word(Phase.DESCRIPTOR, run.phase)
        self._say(phase=phase, ended=run.phase in ENDED, trouble=trouble)

    def _say(self, **said: object) -> None:
        if any(self._props.get(name) != value for name, value in said.items()):
            self._props.update(said)
            self.update()


async def draw_player(desk: Desk, visitor: Visitor, run: Run) -> None:
    """The session, kept up to date while the page is open."""
    actors = await actors_for(visitor, run.spec.env)
    view = PlayView(run, desk.live.trouble, may=visitor.person.may_run, actors=actors)

    def refresh() -> None:
        entry = desk.following.book.get(run.id)
        view.tell(entry.run if entry is not None else run, desk.live.trouble)

    async def cast() -> None:
        view.cast(await actors_for(visitor, run.spec.env))

    ui.timer(0.5, refresh)
    ui.timer(AGAIN_SECONDS, cast)


async def actors_for(visitor: Visitor, env: str) -> list[ActorInfo]:
    """Who can act in the env. Without the registry there are people and chance."""
    ask = visitor.access.ask
    try:
        cards = await ask(
            "artifacts", "ListCheckpoints", ListCheckpointsRequest(env=env, page_size=MOST_POLICIES)
        )
        named = await ask("artifacts", "ListActors", ListActorsRequest())
    except RunspineError:
        return list(ANYBODY)
    return actors_of(cards.cards, named.actors, env)


def title_of(actor: ActorInfo) -> str:
    if actor.kind not in ("policy", "bdi"):
        return actor.title
    words = [*actor.activated, actor.title]
    if actor.score is not None:
        words.append(f"return {number(actor.score)}")
    return " · ".join([*words, actor.name.partition(":")[2][:8]])

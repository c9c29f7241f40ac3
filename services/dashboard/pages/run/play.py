"""The play tab of a play session."""

from __future__ import annotations

from runspine.services.dashboard.pages.elements.context import PageContext, Visitor
from runspine.services.dashboard.pages.play.player import draw_player
from runspine.wire.v1.trainer_pb2 import GetResponse


async def draw_play(context: PageContext, visitor: Visitor, answer: GetResponse) -> None:
    await draw_player(context, visitor, answer.run)

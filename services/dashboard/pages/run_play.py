"""The tab of a run that is a play session."""

from __future__ import annotations

from runspine.wire.v1.trainer_pb2 import GetResponse
from services.dashboard.pages.desk import Desk, Visitor
from services.dashboard.pages.player import draw_player


async def draw_play(desk: Desk, visitor: Visitor, answer: GetResponse) -> None:
    await draw_player(desk, visitor, answer.run)

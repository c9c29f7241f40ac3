"""Frames from a trainer's env to a viewer on NATS, through a real worker; and words the other way."""

from __future__ import annotations

import asyncio
import io
import json
import time
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from runspine.wire.v1.live_pb2 import ChooseActor, Control, Input, Pace
from tests.kit.paths import ROOT
from tests.kit.viewer import looking
from tests.kit.waiting import eventually
from tests.kit.worker import Rig

# A trainer is given no path of the worker's.
HERE = {"PYTHONPATH": str(ROOT)}

# Eight CartPoles that never stop, and how many pictures were drawn of them.
EIGHT = """
import runspine, gymnasium, pathlib, time
run = runspine.init()
envs = [runspine.wrap(gymnasium.make("CartPole-v1"), slot=slot) for slot in range(8)]
for env in envs: env.reset(seed=1)
written = 0.0
while True:
    for env in envs:
        if any(env.step(env.action_space.sample())[2:4]): env.reset()
    if time.monotonic() > written + 0.1:
        written = time.monotonic()
        pathlib.Path("drawn.part").write_text(str(run.view.drawn))
        pathlib.Path("drawn.part").replace("drawn")
"""

# Prints what viewers send.
ECHO = """
import runspine, json
view = runspine.init().view
view.open()
while True: print("event", json.dumps(view.commands.get(), sort_keys=True), flush=True)
"""


async def directory(rig: Rig, run_id: str) -> Path:
    return Path((await rig.started(run_id)).attempt_started.directory)


async def drawn(folder: Path) -> int:
    async def probe() -> str | None:
        found = folder / "drawn"
        return found.read_text() if found.exists() else None

    return int(await eventually(probe))


@pytest.mark.alone
async def test_eight_slots_are_seen_while_somebody_looks_and_drawing_stops_with_the_viewer(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(EIGHT, variables=HERE)
    folder = await directory(rig, run_id)
    assert await drawn(folder) == 0
    async with looking(rig.link, run_id, fps=5, width=200) as viewer:

        async def all_seen() -> bool:
            return len(viewer.slots) == 8 and len(viewer.frames) > 40

        await eventually(all_seen)
    last = time.monotonic()

    async def still() -> bool:
        before = await drawn(folder)
        await asyncio.sleep(0.7)
        return await drawn(folder) == before

    await eventually(still)
    # Three seconds are the promise; the rest is this test's own way of looking.
    assert time.monotonic() - last < 3 + 3
    frame = viewer.frames[-1]
    assert Image.open(io.BytesIO(frame.jpeg)).size == (frame.width, frame.height) == (200, 133)
    assert frame.slots == 8
    assert frame.hud.step > 0
    assert frame.hud.episode_return == frame.hud.episode_step
    numbers = [each.number for each in viewer.frames if each.slot == 0]
    assert numbers == sorted(set(numbers))


async def test_a_viewer_that_comes_when_nothing_moves_sees_the_last_picture(rig: Rig) -> None:
    rig.worker()
    once = (
        "import runspine, gymnasium, time\n"
        "run = runspine.init(); env = runspine.wrap(gymnasium.make('CartPole-v1')); env.reset()\n"
        "while run.view.drawn == 0:\n  if any(env.step(0)[2:4]): env.reset()\n"
        "time.sleep(600)\n"
    )
    run_id = await rig.python(once, variables=HERE)
    for _ in range(2):
        async with looking(rig.link, run_id) as viewer:

            async def seen(viewer: Any = viewer) -> bool:
                return bool(viewer.frames)

            await eventually(seen)
        assert viewer.frames[0].number == 1
        assert viewer.frames[0].jpeg
        # Long enough to be forgotten: the next one is new.
        await asyncio.sleep(3.2)


async def test_what_a_person_does_reaches_the_trainer_in_order_and_whole(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(ECHO, variables=HERE)
    await rig.started(run_id)
    emitted = [
        Control(pace=Pace(steps_per_second=7.5, paused=False)),
        Control(actor=ChooseActor(person="ann", actor="random")),
        *(
            Control(input=Input(person="ann", number=n, key="ArrowLeft", down=n % 2 == 1))
            for n in range(1, 5)
        ),
    ]
    async with looking(rig.link, run_id) as viewer:

        async def listens() -> bool:
            await viewer.tell(emitted[0])
            return any("7.5" in text for text in await rig.texts(run_id))

        await eventually(listens)
        for control in emitted[1:]:
            await viewer.tell(control)

        async def received_so_far() -> list[dict[str, Any]] | None:
            texts = [text for text in await rig.texts(run_id) if text.startswith("event ")]
            others = [json.loads(text[6:]) for text in texts if "pace" not in text]
            return others if len(others) == 5 else None

        received = await eventually(received_so_far)
    assert received[0] == {"actor": {"person": "ann", "actor": "random"}}
    assert [each["input"]["number"] for each in received[1:]] == [1, 2, 3, 4]
    assert [each["input"]["down"] for each in received[1:]] == [True, False, True, False]

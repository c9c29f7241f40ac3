"""Every point of a run's series: exact, each once, from segments and from the stream."""

from __future__ import annotations

import struct
from typing import Any

import grpc
import numpy as np
import pytest

from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.archive import all_of, episode, metric
from tests.kit.telemetry import Archived
from tests.kit.waiting import eventually

NAN = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0BAD))[0]


async def points(stub: Any, run_id: str, *names: str, **more: Any) -> dict[str, list[tuple[int, bytes]]]:
    """Step and bytes of the value of each point, by series."""
    found: dict[str, list[tuple[int, bytes]]] = {}
    for answer in await all_of(stub.ReadPoints(wire.ReadPointsRequest(run_id=run_id, names=names, **more))):
        for block in answer.blocks:
            steps = np.frombuffer(block.steps, "<u8").tolist()
            values = [block.values[at : at + 8] for at in range(0, len(block.values), 8)]
            found.setdefault(block.name, []).extend(zip(steps, values, strict=True))
    return found


def expected(values: list[float], first: int = 0) -> list[tuple[int, bytes]]:
    return [(first + n, struct.pack("<d", value)) for n, value in enumerate(values)]


async def test_every_point_is_read_as_it_was_written(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    odd = [0.1, NAN, float("inf"), -0.0, 5e-324, -1e308]
    await archived.emit(run_id, metrics=metric("loss/ß", odd))
    await archived.emit(run_id, metrics=metric("other", [7.0] * 1000))
    await archived.archived_to(await archived.emit(run_id, metrics=metric("loss/ß", [1.0, 2.0], 6)))
    async with archived.stub(service) as stub:
        assert await points(stub, run_id, "loss/ß") == {"loss/ß": expected([*odd, 1.0, 2.0])}
        # What is still on the stream follows what is archived.
        await archived.emit(run_id, metrics=metric("loss/ß", [3.0], 8))
        everything = await points(stub, run_id)
        assert everything["loss/ß"] == expected([*odd, 1.0, 2.0, 3.0])
        assert len(everything["other"]) == 1000
        with pytest.raises(grpc.aio.AioRpcError, match="there is no run"):
            await points(stub, "01AAAAAAAAAAAAAAAAAAAAAAAA")


async def test_a_read_resumes_after_a_position_and_superseded_points_are_left_out(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    await archived.attempt(run_id, 1)
    await archived.archived_to(
        await archived.emit(run_id, metrics=metric("m", [float(n) for n in range(10)]))
    )
    await archived.emit(run_id, episodes=wire.EpisodeBatch(episodes=[episode("e", 3.5, 4, 4)]))
    async with archived.stub(service) as stub:
        answers = await all_of(stub.ReadPoints(wire.ReadPointsRequest(run_id=run_id, with_times=True)))
        position = max(answer.position for answer in answers)
        times = [block.at for answer in answers for block in answer.blocks if block.name == "m"]
        assert np.frombuffer(b"".join(times), "<i8").tolist() == [n * 1000 for n in range(10)]
        assert set(await points(stub, run_id)) == {"m", "episode/return", "episode/length"}

        # The second attempt resumes at step 4: what the first recorded after it is superseded.
        await archived.attempt(run_id, 2, resumed_at=4)
        later = await archived.emit(run_id, attempt=2, metrics=metric("m", [50.0, 60.0], 5))
        assert await points(stub, run_id, "m", after=position) == {"m": expected([50.0, 60.0], 5)}
        await archived.archived_to(later)
        assert await points(stub, run_id, "m", after=position) == {"m": expected([50.0, 60.0], 5)}

        async def superseded() -> bool:
            # Attempts are read from the log once a second.
            return await points(stub, run_id, "m") == {"m": expected([0.0, 1.0, 2.0, 3.0, 4.0, 50.0, 60.0])}

        await eventually(superseded)
        assert await points(stub, run_id, "m", after=later) == {}


@pytest.mark.long
async def test_memory_of_the_service_does_not_grow_with_the_run(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start(RUNSPINE_INGEST_COMMIT_MIB="8")
    total, size = 2_000_000, 50_000
    for first in range(0, total, size):
        numbers = np.arange(first, first + size)
        block = wire.MetricBlock(name="m", values=np.sin(numbers), steps=numbers, at=numbers)
        position = await archived.emit(run_id, metrics=wire.MetricBatch(blocks=[block]))
    await archived.archived_to(position)
    async with archived.stub(service) as stub:
        await points(stub, run_id, "nothing")
        before = service.rss_mib
        count, total_value = 0, 0.0
        async for answer in stub.ReadPoints(wire.ReadPointsRequest(run_id=run_id, names=["m"])):
            for block in answer.blocks:
                values = np.frombuffer(block.values, "<f8")
                assert np.array_equal(
                    np.frombuffer(block.steps, "<u8"), np.arange(count, count + len(values))
                )
                count, total_value = count + len(values), total_value + float(values.sum())
        assert count == total
        assert total_value == pytest.approx(float(np.sin(np.arange(total)).sum()), abs=1e-3)
        # The points alone are 46 MiB as columns.
        assert service.rss_mib - before < 100

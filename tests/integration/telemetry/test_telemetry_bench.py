"""What `runspine bench telemetry` calls a proof is one: it fails when the archive holds anything else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from runspine.bench.telemetry.durable import DurableBench, TrainerLoad, WrongArchiveError, sandbox_with
from runspine.bench.telemetry.latency import measure_latency
from runspine.embedded import running_stack


@pytest.mark.long
async def test_steps_of_two_trainers_are_proven_and_anything_else_is_not(tmp_path: Path) -> None:
    shared = sandbox_with(tmp_path / "trainers")
    async with running_stack(tmp_path / "stack", slots=2, settings=shared) as stack:
        bench = DurableBench(stack, tmp_path / "trainers")
        asked = TrainerLoad(trainers=2, steps=20_000, policy="random")
        async with bench.group(asked) as group:
            group.begin()
            await bench.ended(group)
            assert group.began < await bench.archived(group)
            assert await bench.prove(group) > 0
            for other, reason in (
                (replace(asked, steps=20_001), "1 are lost"),
                (replace(asked, steps=19_999), "doubled|lost"),
                (replace(asked, policy="learning"), "not what the trainer"),
            ):
                group.load = other
                with pytest.raises(WrongArchiveError, match=reason):
                    await bench.prove(group)
        many = TrainerLoad(trainers=1, steps=20_480, policy="random", kind="vector")
        async with bench.group(many) as group:
            group.begin()
            await bench.ended(group)
            await bench.archived(group)
            assert await bench.prove(group) > 0
            for other, reason in (
                (replace(many, steps=20_992), "512 are lost"),
                (replace(many, policy="learning"), "not what the trainer"),
            ):
                group.load = other
                with pytest.raises(WrongArchiveError, match=reason):
                    await bench.prove(group)
        received = await measure_latency(bench, TrainerLoad(trainers=1, steps=10_000, rate=4_000))
        assert 0 < received.p50 <= received.p99 <= received.worst
        await bench.close()

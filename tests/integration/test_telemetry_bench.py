"""What `runspine bench telemetry` calls a proof is one: it fails when the archive holds anything else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from bench.telemetry_durable import Asked, Bench, Wrong
from bench.telemetry_latency import measure_latency
from runspine.embedded import running_stack


@pytest.mark.long
async def test_steps_of_two_trainers_are_proven_and_anything_else_is_not(tmp_path: Path) -> None:
    async with running_stack(tmp_path / "stack", slots=2) as stack:
        bench = Bench(stack, tmp_path / "trainers")
        asked = Asked(trainers=2, steps=20_000, policy="random")
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
                group.asked = other
                with pytest.raises(Wrong, match=reason):
                    await bench.prove(group)
        told = await measure_latency(bench, Asked(trainers=1, steps=10_000, rate=4_000))
        assert 0 < told.p50 <= told.p99 <= told.worst
        await bench.close()

"""A long series is drawn at once, is exact when zoomed into, and does not fill the service's memory."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from runspine.bench.telemetry.long_series import HIGH, LOW, NAME, put_series, spikes, values_of
from runspine.services.telemetry.edges.manifest_chain import ManifestChain
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.telemetry import Archived
from tests.kit.waiting import slowdown

POINTS = 10_000_000


@pytest.mark.slow
@pytest.mark.alone
async def test_ten_million_points_are_drawn_at_once_and_exact_on_zoom(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    store = SegmentStore(archived.blobs, 1 << 20)
    await put_series(ManifestChain(archived.blobs, 0, 1), store, run_id, POINTS)
    service = archived.start()
    async with archived.stub(service) as stub:

        async def draw(
            low: float | None = None, high: float | None = None, points: int = 1000
        ) -> tuple[Any, float]:
            request = wire.QueryMetricsRequest(run_id=run_id, names=[NAME], max_points=points, to=high)
            if low is not None:
                setattr(request, "from", low)
            busy = slowdown()
            began = time.perf_counter()
            answer = await stub.QueryMetrics(request)
            seconds = time.perf_counter() - began
            return answer.series[0], seconds / max(busy, slowdown())

        # Only so that nothing is measured before the archive was read.
        await stub.ListSeries(wire.ListSeriesRequest(run_id=run_id))
        before = service.rss_mib
        whole, first_chart = await draw()
        assert (whole.points, whole.exact) == (POINTS, False)
        assert 500 <= len(whole.x) <= 1000
        assert (min(whole.low), max(whole.high)) == (LOW, HIGH)
        assert first_chart < 1.0

        start = POINTS // 2 + 12_345
        zoomed, zoom = await draw(start, start + 999)
        assert zoomed.exact
        assert list(zoomed.x) == list(range(start, start + 1000))
        assert np.array_equal(np.array(zoomed.y), values_of(start, 1000))
        assert zoom < 0.3

        # At any depth: what is counted is what is in range, and the spike is there whenever it is.
        at = spikes(POINTS)[0]
        for width in (500, 5_000, 70_001, 1_000_003):
            drawn, _ = await draw(at - width // 2, at + width - width // 2 - 1)
            assert drawn.points == width
            assert min(drawn.low) == LOW
            assert abs(drawn.x[int(np.argmin(drawn.low))] - at) <= max(1, width / 200)
            assert len(drawn.x) > 400
        around, _ = await draw(at + 1, at + 100_000)
        assert min(around.low) > -10
        assert service.rss_mib - before < 200, "memory grows with the length of the series"

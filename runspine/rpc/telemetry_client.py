"""Client of the telemetry service: series, curves, episodes, SQL, and batches from a position on."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from runspine.rpc.trainer_client import Client, OnWait
from runspine.wire.v1 import telemetry_pb2 as wire

if TYPE_CHECKING:
    import pyarrow as pa

# The service returns no more points in one reply; a longer curve is returned in buckets.
MAX_POINTS = 100_000
EPISODES_PER_PAGE = 1000


class TelemetryClient:
    """Calls of the telemetry service. Raises RunspineError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def series(self, run_id: str) -> Sequence[wire.SeriesInfo]:
        """Every series of a run, sorted by name."""
        request = wire.ListSeriesRequest(run_id=run_id)
        return self._client.call_telemetry("ListSeries", request, wire.ListSeriesResponse).series

    def curves(
        self,
        run_id: str,
        names: Sequence[str],
        *,
        axis: wire.Axis = wire.ENV_STEP,
        low: float | None = None,
        high: float | None = None,
        max_points: int = 1000,
    ) -> Sequence[wire.Series]:
        """One curve for each name, in their order."""
        request = wire.QueryMetricsRequest(
            run_id=run_id, names=names, axis=axis, to=high, max_points=max_points
        )
        if low is not None:
            setattr(request, "from", low)
        return self._client.call_telemetry("QueryMetrics", request, wire.QueryMetricsResponse).series

    def episodes(self, run_id: str) -> Iterator[wire.EpisodeEntry]:
        """Every episode that has ended, in order of time."""
        request = wire.ListEpisodesRequest(run_id=run_id, order=wire.BY_TIME, page_size=EPISODES_PER_PAGE)
        while True:
            page = self._client.call_telemetry("ListEpisodes", request, wire.ListEpisodesResponse)
            yield from page.episodes
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def episode(self, run_id: str, episode_id: str, attempt: int) -> wire.GetEpisodeResponse:
        request = wire.GetEpisodeRequest(run_id=run_id, episode_id=episode_id, attempt=attempt)
        return self._client.call_telemetry("GetEpisode", request, wire.GetEpisodeResponse)

    def batches(
        self,
        run_id: str,
        kind: str,
        *,
        after: int = 0,
        follow: bool = False,
        on_wait: OnWait | None = None,
    ) -> Iterator[Any]:
        """Batches of `metrics`, `episodes` or `steps` after a position, each once.

        The service reports to a slow reader of live steps which batches it dropped; they are then read
        from the archive, so that none is missing.
        """
        name = {"metrics": "StreamMetrics", "episodes": "StreamEpisodes", "steps": "StreamSteps"}[kind]
        request = wire.StreamRequest(run_id=run_id, after=after, follow=follow)
        while True:
            for message in self._client.stream_telemetry(name, request, on_wait):
                if kind == "steps" and message.missed_from:
                    break  # start the stream again at the last position
                request.after = max(request.after, message.position)
                yield message
            else:
                return

    def sql(self, run_id: str, query: str, max_rows: int = 1_000_000) -> pa.Table:
        """The result of a SELECT over a run's tables."""
        import pyarrow as pa

        request = wire.SqlRequest(run_id=run_id, query=query, max_rows=max_rows)
        pieces = self._client.stream_telemetry("Sql", request)
        with pa.ipc.open_stream(io.BytesIO(b"".join(piece.arrow for piece in pieces))) as found:
            return found.read_all()

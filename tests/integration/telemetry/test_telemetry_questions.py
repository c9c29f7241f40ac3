"""Questions about a run, answered from its segments and the stream together."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.archive import all_of, end, episode, line, metric, trim
from tests.kit.telemetry import Archived, step_batch, steps
from tests.kit.waiting import eventually

EOF: Any = vars(grpc.aio)["EOF"]


async def test_questions_join_segments_and_stream(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    position = await archived.emit(run_id, metrics=metric("loss", [3.0, 1.0, 2.0]))
    await archived.emit(run_id, episodes=wire.EpisodeBatch(episodes=[episode("a", 5.0, 10, 10)]))
    position = await archived.emit(run_id, steps=step_batch(steps("a", 0, [0.5] * 10, 0)))
    await trim(archived, service, position)
    service.stop()
    # Never archived before the test ends: these are answered from the stream.
    service = archived.start(RUNSPINE_INGEST_COMMIT_SECONDS="600")
    await archived.emit(run_id, metrics=metric("loss", [9.0, -1.0], 3))
    await archived.emit(run_id, episodes=wire.EpisodeBatch(episodes=[episode("b", 2.0, 20, 30)]))
    await archived.emit(run_id, steps=step_batch(steps("b", 0, [2.0] * 20, 10)))
    async with archived.stub(service) as stub:
        series = {s.name: s for s in (await stub.ListSeries(wire.ListSeriesRequest(run_id=run_id))).series}
        assert set(series) == {"loss", "episode/return", "episode/length", "step/reward"}
        loss = series["loss"]
        assert (loss.points, loss.minimum, loss.maximum, loss.last, loss.last_step) == (5, -1, 9, -1, 4)
        assert (series["step/reward"].points, series["step/reward"].last_step) == (30, 29)
        names = ["loss", "episode/return", "episode/length", "step/reward", "unknown"]
        curves = await stub.QueryMetrics(wire.QueryMetricsRequest(run_id=run_id, names=names))
        drawn = {s.name: (list(s.x), list(s.y), s.exact) for s in curves.series}
        assert drawn["loss"] == ([0, 1, 2, 3, 4], [3, 1, 2, 9, -1], True)
        assert drawn["episode/return"] == ([10, 30], [5, 2], True)
        assert drawn["episode/length"] == ([10, 30], [10, 20], True)
        assert drawn["step/reward"][0] == list(range(30))
        assert drawn["unknown"] == ([], [], True)
        few = await stub.QueryMetrics(wire.QueryMetricsRequest(run_id=run_id, names=["loss"], max_points=2))
        assert (few.series[0].points, min(few.series[0].low), max(few.series[0].high)) == (5, -1, 9)
        part = wire.QueryMetricsRequest(run_id=run_id, names=["loss"], axis=wire.TIME, to=3000.0)
        setattr(part, "from", 1000.0)
        assert list((await stub.QueryMetrics(part)).series[0].y) == [1, 2, 9]
        recent = await stub.RecentMetrics(wire.RecentMetricsRequest(run_id=run_id, names=["loss"], count=4))
        assert list(recent.series[0].values) == [1, 2, 9, -1]


async def test_episodes_are_listed_in_any_order_by_pages(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    values = [3.0, math.nan, 1.0, 2.0, 7.0, -4.0, 0.0]
    lengths = [30, 20, 10, 5, 60, 7, 9]
    for n, (value, length) in enumerate(zip(values, lengths, strict=True)):
        received = wire.EpisodeBatch(episodes=[episode(f"e{n}", value, length, n + 1)])
        position = await archived.emit(run_id, episodes=received)
        if n in (2, 4):
            await archived.archived_to(position)
    async with archived.stub(service) as stub:

        async def listed(**how: Any) -> list[str]:
            found, token = [], ""
            while True:
                request = wire.ListEpisodesRequest(run_id=run_id, page_size=3, page_token=token, **how)
                answer = await stub.ListEpisodes(request)
                assert answer.total == 7
                found += [e.episode.episode_id for e in answer.episodes]
                if not (token := answer.next_page_token):
                    return found

        assert await listed() == [f"e{n}" for n in range(7)]
        assert await listed(descending=True) == [f"e{n}" for n in reversed(range(7))]
        assert await listed(order=wire.BY_RETURN) == ["e5", "e6", "e2", "e3", "e0", "e4", "e1"]
        assert await listed(order=wire.BY_RETURN, descending=True) == [
            "e4",
            "e0",
            "e3",
            "e2",
            "e6",
            "e5",
            "e1",
        ]
        assert await listed(order=wire.BY_LENGTH) == ["e3", "e5", "e6", "e2", "e1", "e0", "e4"]
        by_index = await stub.ListEpisodes(wire.ListEpisodesRequest(run_id=run_id, order=wire.BY_LENGTH))
        assert [e.index for e in by_index.episodes] == [3, 5, 6, 2, 1, 0, 4]


async def test_one_episode_comes_whole_and_exact(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    made = wire.EnvMade(slot=0, env_id="CartPole-v1", kwargs_json="{}", versions={"gymnasium": "1.4.0"})
    await archived.emit(run_id, envs=wire.EnvBatch(made=[made]))
    expected: dict[str, list[wire.StepBlock]] = {}
    counter = 0
    for n in range(6):
        reset = wire.Reset(episode_id=f"e{n}", ordinal=n, rng_json='{"state": 1}')
        await archived.emit(run_id, envs=wire.EnvBatch(resets=[reset]))
        blocks = [steps(f"e{n}", first, [n, first, math.nan], counter + first) for first in (0, 3, 6)]
        for block in blocks:
            position = await archived.emit(run_id, steps=step_batch(block))
            if n == 2 and block.first_step == 3:
                await archived.archived_to(position)
        counter += 9
        expected[f"e{n}"] = blocks
        # The end of the last episode is never reported.
        if n < 5:
            received = wire.EpisodeBatch(episodes=[episode(f"e{n}", float(n), 9, counter)])
            await archived.emit(run_id, episodes=received)
    async with archived.stub(service) as stub:
        for n in range(6):
            request = wire.GetEpisodeRequest(run_id=run_id, episode_id=f"e{n}")
            answer = await stub.GetEpisode(request)
            assert list(answer.blocks) == expected[f"e{n}"]
            assert (answer.reset.ordinal, answer.env) == (n, made)
            if n < 5:
                assert (answer.entry.index, answer.entry.attempt) == (n, 1)
                assert (await stub.GetEpisode(wire.GetEpisodeRequest(run_id=run_id, index=n))) == answer
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.GetEpisode(wire.GetEpisodeRequest(run_id=run_id, episode_id="never"))
        assert caught.value.code() == grpc.StatusCode.NOT_FOUND


async def test_a_resumed_attempt_takes_the_place_of_what_came_after_its_checkpoint(
    archived: Archived,
) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    await archived.attempt(run_id, 1)
    await archived.emit(run_id, steps=step_batch(steps("a", 0, [1.0] * 10, 0)))
    await archived.emit(run_id, steps=step_batch(steps("b", 0, [1.0] * 10, 10)))
    lost = wire.EpisodeBatch(episodes=[episode("a", 10, 10, 10), episode("b", 10, 10, 20)])
    await archived.emit(run_id, episodes=lost)
    position = await archived.emit(run_id, metrics=metric("loss", [float(n) for n in range(20)]))
    await archived.archived_to(position)
    await archived.attempt(run_id, 2, resumed_at=15)
    await archived.emit(run_id, attempt=2, steps=step_batch(steps("b", 5, [2.0] * 5, 15)))
    again = wire.EpisodeBatch(episodes=[episode("b", 15, 10, 20)])
    await archived.emit(run_id, attempt=2, episodes=again)
    position = await archived.emit(run_id, attempt=2, metrics=metric("loss", [100.0] * 4, 16))

    async def check(stub: Any) -> None:
        answers = await all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id)))
        received = [(a.attempt, b.episode_id, b.first_step, b.count) for a in answers for b in a.blocks]
        assert received == [(1, "a", 0, 10), (1, "b", 0, 5), (2, "b", 5, 5)]
        names = ["loss", "step/reward"]
        curves = (await stub.QueryMetrics(wire.QueryMetricsRequest(run_id=run_id, names=names))).series
        assert list(curves[0].y) == [*range(16), 100, 100, 100, 100]
        assert list(curves[1].y) == [1.0] * 15 + [2.0] * 5
        listed = await stub.ListEpisodes(wire.ListEpisodesRequest(run_id=run_id))
        assert [(e.attempt, e.episode.episode_id, e.index) for e in listed.episodes] == [
            (1, "a", 0),
            (2, "b", 1),
        ]
        whole = await stub.GetEpisode(wire.GetEpisodeRequest(run_id=run_id, episode_id="b"))
        assert [(b.first_step, b.count) for b in whole.blocks] == [(0, 5), (5, 5)]
        series = {s.name: s for s in (await stub.ListSeries(wire.ListSeriesRequest(run_id=run_id))).series}
        assert (series["loss"].points, series["episode/return"].points) == (20, 2)
        tables = {"steps": [(1, 15), (2, 5)], "metrics": [(1, 16), (2, 4)], "episodes": [(1, 1), (2, 1)]}
        for table, counts in tables.items():
            query = f"SELECT attempt, count(*) n FROM {table} GROUP BY 1 ORDER BY 1"
            pieces = await all_of(stub.Sql(wire.SqlRequest(run_id=run_id, query=query)))
            found = pa.ipc.open_stream(b"".join(p.arrow for p in pieces)).read_all().to_pylist()
            assert [(row["attempt"], row["n"]) for row in found] == counts, table

    async with archived.stub(service) as stub:
        await asyncio.sleep(1.1)  # Attempts are read from the log once a second.
        await check(stub)
        await trim(archived, service, position)
        await check(stub)
        await end(archived, run_id)

        async def joined() -> bool:
            return len((await archived.archive()).of(run_id, "steps")) == 1

        await eventually(joined)
        await check(stub)
    assert sum(s.rows for s in (await archived.archive()).of(run_id, "steps")) == 25, "nothing is thrown away"


async def test_a_slow_follower_is_notified_of_what_it_missed_and_holds_nothing_up(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start(RUNSPINE_FOLLOW_MIB="1")
    await archived.emit(run_id, steps=step_batch(steps("a", 0, [0.0] * 10, 1)))
    async with archived.stub(service) as stub:
        call = stub.StreamSteps(wire.StreamRequest(run_id=run_id, follow=True))
        first = await asyncio.wait_for(call.read(), 60)
        assert first.missed_from == 0

        async def flow(of: str) -> list[int]:
            received = []
            for n in range(1, 241):
                block = steps("a", 10_000 * n, [float(n)] * 8_000, 10_000 * n)
                received.append(await archived.emit(of, steps=step_batch(block)))
            await archived.archived_to(received[-1])
            return received

        positions = await flow(run_id)
        await end(archived, run_id)
        answers = [first]
        while (answer := await asyncio.wait_for(call.read(), 60)) is not EOF:
            answers.append(answer)
        missed = [a for a in answers if a.missed_from]
        assert missed, "60 MB do not fit into a window of 1 MB"
        got = {a.position for a in answers}
        gaps = {p for p in positions if any(a.missed_from <= p <= a.missed_to for a in missed)}
        assert got.isdisjoint(gaps)
        assert got | gaps == {first.position, *positions}
        assert answers[-1].position == positions[-1]
        # It can catch up.
        ask = wire.StreamRequest(run_id=run_id, after=missed[0].missed_from - 1)
        again = await all_of(stub.StreamSteps(ask))
        assert [a.position for a in again] == [p for p in positions if p >= missed[0].missed_from]


async def test_logs_are_searched_by_text_and_by_expression(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    for n in range(20):
        position = await archived.emit(run_id, logs=line(f"step {n} loss={n / 2}", n + 1))
        if n == 10:
            await archived.archived_to(position)
    async with archived.stub(service) as stub:

        async def found(**how: Any) -> list[str]:
            answers = await all_of(stub.SearchLogs(wire.SearchLogsRequest(run_id=run_id, **how)))
            return [received.text for answer in answers for received in answer.lines]

        assert await found(text="loss=9.") == ["step 18 loss=9.0", "step 19 loss=9.5"]
        assert await found(text=r"step 1[01] ", regular_expression=True) == [
            "step 10 loss=5.0",
            "step 11 loss=5.5",
        ]
        assert len(await found(text="step", limit=7)) == 7
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await found(text="(", regular_expression=True)
        assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_sql_reads_a_runs_tables_and_nothing_else(archived: Archived, tmp_path: Path) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    position = await archived.emit(run_id, steps=step_batch(steps("a", 0, [1.0, 2.0, 3.0], 5)))
    await archived.archived_to(position)
    await archived.emit(run_id, steps=step_batch(steps("b", 0, [4.0], 8)))
    await archived.emit(run_id, metrics=metric("loss", [0.5, 0.25]))
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    async with archived.stub(service) as stub:

        async def ask(query: str, **how: Any) -> list[dict[str, Any]]:
            answers = await all_of(stub.Sql(wire.SqlRequest(run_id=run_id, query=query, **how)))
            data = b"".join(answer.arrow for answer in answers)
            return list(pa.ipc.open_stream(data).read_all().to_pylist())

        received = await ask(
            "SELECT episode_id, sum(reward) r, max(global_step) g FROM steps GROUP BY 1 ORDER BY 1"
        )
        assert received == [{"episode_id": "a", "r": 6.0, "g": 7}, {"episode_id": "b", "r": 4.0, "g": 8}]
        assert await ask("SELECT min(value) v FROM metrics") == [{"v": 0.25}]
        assert len(await ask("SELECT * FROM range(100)", max_rows=7)) == 7
        for query in (
            f"SELECT * FROM '{secret}'",
            f"COPY (SELECT 1) TO '{tmp_path / 'out.csv'}'",
            "CREATE TABLE t (a int)",
            "SELECT 1; SELECT 2",
            "INSTALL httpfs",
            "SELECT nonsense",
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask(query)
            assert caught.value.code() == grpc.StatusCode.INVALID_ARGUMENT, query
        assert not (tmp_path / "out.csv").exists()

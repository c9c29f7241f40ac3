"""The stream becomes segments, the stream is trimmed, and every question is answered as before."""

from __future__ import annotations

import asyncio
import math
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow as pa
import pytest

from runspine.wire.v1 import telemetry_pb2 as wire
from runspine.wire.v1.facts_pb2 import Fact, RunCompleted, RunStarted
from services.telemetry.core import parquet, rows
from tests.fixtures.nats import free_port
from tests.integration.telemetry_rig import Archived, TelemetryProcess, step_batch, steps
from tests.integration.worker_rig import eventually

EOF: Any = vars(grpc.aio)["EOF"]


def line(text: str, number: int = 1) -> wire.LogBatch:
    return wire.LogBatch(lines=[wire.LogLine(number=number, text=text)])


def metric(name: str, values: list[float], first: int = 0) -> wire.MetricBatch:
    numbers = range(first, first + len(values))
    return wire.MetricBatch(
        blocks=[wire.MetricBlock(name=name, values=values, steps=numbers, at=[n * 1000 for n in numbers])]
    )


def episode(name: str, value: float, length: int, counter: int) -> wire.Episode:
    made = wire.Episode(episode_id=name, steps=length, global_step=counter, ended_at=1_000_000 + counter * 10)
    setattr(made, "return", value)
    return made


async def end(archived: Archived, run_id: str) -> None:
    facts = Fact(run_started=RunStarted(attempt=1)), Fact(run_completed=RunCompleted(attempt=1))
    await archived.rig.decide(run_id, *facts)


async def trim(archived: Archived, service: TelemetryProcess, position: int) -> None:
    """Everything is in segments, and only there."""
    await archived.archived_to(position)
    await archived.trimmed_to(position)
    assert (await archived.rig.log.extent("TELEMETRY")).commits == 0


async def all_of(call: Any) -> list[Any]:
    return [answer async for answer in call]


async def test_log_lines_outlive_the_stream(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    positions = [await archived.say(run_id, logs=line(f"line {n}", n)) for n in range(1, 6)]
    await archived.say(run_id, logs=line("line 5", 5), number=5, again=1)
    async with archived.stub(service) as stub:
        request = wire.StreamLogsRequest(run_id=run_id)
        before = await all_of(stub.StreamLogs(request))
        await trim(archived, service, positions[-1] + 1)
        assert await all_of(stub.StreamLogs(request)) == before
        assert [a.position for a in before] == positions
        later = await all_of(stub.StreamLogs(wire.StreamLogsRequest(run_id=run_id, after=positions[2])))
        assert [a.lines[0].text for a in later] == ["line 4", "line 5"]
        last = await archived.say(run_id, logs=line("still there", 6))
        answers = await all_of(stub.StreamLogs(request))
        assert answers[-1].position == last
        assert len(answers) == 6


async def test_a_batch_that_comes_again_after_its_archival_is_not_doubled(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    await archived.say(run_id, steps=step_batch(steps("a", 0, [1.0] * 5, 1)))
    position = await archived.say(run_id, steps=step_batch(steps("a", 5, [1.0] * 5, 6)))
    await trim(archived, service, position)
    again = await archived.say(run_id, steps=step_batch(steps("a", 5, [1.0] * 5, 6)), number=2, again=1)
    async with archived.stub(service) as stub:
        assert len(await all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id)))) == 2
        await archived.archived_to(again)
        assert len(await all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id)))) == 2
    assert sum(s.rows for s in (await archived.archive()).of(run_id, "steps")) == 10


async def test_a_run_that_has_ended_is_joined_into_one_segment_of_each_kind(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start(RUNSPINE_INGEST_GRACE_SECONDS="0.5")
    sent = []
    for n in range(4):
        sent.append(steps("a", 10 * n, [float(n)] * 10, 10 * n + 1))
        await archived.say(run_id, steps=step_batch(sent[-1]))
        position = await archived.say(run_id, metrics=metric("loss", [n, n + 0.5], 2 * n))
        await archived.archived_to(position)
    assert len((await archived.archive()).of(run_id, "steps")) == 4
    await end(archived, run_id)

    async def joined() -> bool:
        archive = await archived.archive()
        return all(len(archive.of(run_id, kind)) == 1 for kind in ("steps", "metrics"))

    await eventually(joined)
    archive = await archived.archive()
    named = {key for kind in rows.KINDS for s in archive.of(run_id, kind) for key in (s.key, s.levels_key)}

    async def swept() -> bool:
        return set(await archived.blobs.keys(f"telemetry/{run_id}/")) == named

    await eventually(swept)
    async with archived.stub(service) as stub:
        answers = await all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id)))
        assert [block for answer in answers for block in answer.blocks] == sent
        metrics = await all_of(stub.StreamMetrics(wire.StreamRequest(run_id=run_id)))
        assert [list(a.blocks[0].values) for a in metrics] == [[n, n + 0.5] for n in range(4)]


async def test_questions_join_segments_and_stream(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    position = await archived.say(run_id, metrics=metric("loss", [3.0, 1.0, 2.0]))
    await archived.say(run_id, episodes=wire.EpisodeBatch(episodes=[episode("a", 5.0, 10, 10)]))
    position = await archived.say(run_id, steps=step_batch(steps("a", 0, [0.5] * 10, 0)))
    await trim(archived, service, position)
    service.stop()
    # Never archived before the test ends: these are answered from the stream.
    service = archived.start(RUNSPINE_INGEST_COMMIT_SECONDS="600")
    await archived.say(run_id, metrics=metric("loss", [9.0, -1.0], 3))
    await archived.say(run_id, episodes=wire.EpisodeBatch(episodes=[episode("b", 2.0, 20, 30)]))
    await archived.say(run_id, steps=step_batch(steps("b", 0, [2.0] * 20, 10)))
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
        told = wire.EpisodeBatch(episodes=[episode(f"e{n}", value, length, n + 1)])
        position = await archived.say(run_id, episodes=told)
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
    await archived.say(run_id, envs=wire.EnvBatch(made=[made]))
    expected: dict[str, list[wire.StepBlock]] = {}
    counter = 0
    for n in range(6):
        reset = wire.Reset(episode_id=f"e{n}", ordinal=n, rng_json='{"state": 1}')
        await archived.say(run_id, envs=wire.EnvBatch(resets=[reset]))
        blocks = [steps(f"e{n}", first, [n, first, math.nan], counter + first) for first in (0, 3, 6)]
        for block in blocks:
            position = await archived.say(run_id, steps=step_batch(block))
            if n == 2 and block.first_step == 3:
                await archived.archived_to(position)
        counter += 9
        expected[f"e{n}"] = blocks
        # Of the last episode nobody says that it has ended.
        if n < 5:
            told = wire.EpisodeBatch(episodes=[episode(f"e{n}", float(n), 9, counter)])
            await archived.say(run_id, episodes=told)
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
    await archived.say(run_id, steps=step_batch(steps("a", 0, [1.0] * 10, 0)))
    await archived.say(run_id, steps=step_batch(steps("b", 0, [1.0] * 10, 10)))
    lost = wire.EpisodeBatch(episodes=[episode("a", 10, 10, 10), episode("b", 10, 10, 20)])
    await archived.say(run_id, episodes=lost)
    position = await archived.say(run_id, metrics=metric("loss", [float(n) for n in range(20)]))
    await archived.archived_to(position)
    await archived.attempt(run_id, 2, resumed_at=15)
    await archived.say(run_id, attempt=2, steps=step_batch(steps("b", 5, [2.0] * 5, 15)))
    again = wire.EpisodeBatch(episodes=[episode("b", 15, 10, 20)])
    await archived.say(run_id, attempt=2, episodes=again)
    position = await archived.say(run_id, attempt=2, metrics=metric("loss", [100.0] * 4, 16))

    async def check(stub: Any) -> None:
        answers = await all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id)))
        told = [(a.attempt, b.episode_id, b.first_step, b.count) for a in answers for b in a.blocks]
        assert told == [(1, "a", 0, 10), (1, "b", 0, 5), (2, "b", 5, 5)]
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
        await asyncio.sleep(1.1)  # What the log says of attempts is asked once a second.
        await check(stub)
        await trim(archived, service, position)
        await check(stub)
        await end(archived, run_id)

        async def joined() -> bool:
            return len((await archived.archive()).of(run_id, "steps")) == 1

        await eventually(joined)
        await check(stub)
    assert sum(s.rows for s in (await archived.archive()).of(run_id, "steps")) == 25, "nothing is thrown away"


async def test_a_second_process_steps_back_and_nothing_is_doubled(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    both = [archived.start(), archived.start()]
    sent = 0

    async def one_stood_back() -> bool:
        """Both read the same stream, so both try to commit the same batches."""
        nonlocal sent
        await archived.say(run_id, steps=step_batch(steps("a", sent, [1.0] * 10, sent + 1)))
        sent += 10
        return any("ingest.stands_back" in service.log for service in both)

    await eventually(one_stood_back, 40)
    position = await archived.say(run_id, steps=step_batch(steps("a", sent, [1.0] * 10, sent + 1)))
    sent += 10
    await archived.archived_to(position)
    archive = await archived.archive()
    assert sum(s.rows for s in archive.of(run_id, "steps")) == sent
    # The one that leads dies: the other takes over.
    leader = next((s for s in both if "ingest.stands_back" not in s.log), both[0])
    leader.kill()
    position = await archived.say(run_id, steps=step_batch(steps("a", sent, [1.0] * 10, sent + 1)))
    await archived.archived_to(position, 40)
    archive = await archived.archive()
    assert sum(s.rows for s in archive.of(run_id, "steps")) == sent + 10
    for service in both:
        if service is not leader:
            async with archived.stub(service) as stub:
                answers = await all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id)))
                assert sum(block.count for answer in answers for block in answer.blocks) == sent + 10


async def test_partitions_share_the_runs_and_the_stream_is_trimmed_behind_the_slowest(
    archived: Archived,
) -> None:
    runs = [await archived.rig.submit("true") for _ in range(6)]
    parts = {"RUNSPINE_INGEST_PARTITIONS": "2"}
    first = archived.start(**parts, RUNSPINE_INGEST_PARTITION_INDEX="0")
    for run_id in runs:
        position = await archived.say(run_id, logs=line("hello"))

    async def cursors() -> list[int]:
        return [(await archived.archive(n, 2)).cursor for n in range(2)]

    async def half() -> bool:
        return (await cursors())[0] >= position

    await eventually(half)
    assert (await archived.rig.log.extent("TELEMETRY")).commits == 6, "the other half is nowhere else"
    second = archived.start(**parts, RUNSPINE_INGEST_PARTITION_INDEX="1")
    await archived.trimmed_to(position)
    found = [await archived.archive(n, 2) for n in range(2)]
    held = [{run for run, _ in archive.segments} for archive in found]
    assert held[0] | held[1] == set(runs)
    assert not held[0] & held[1]
    for service in (first, second):
        async with archived.stub(service) as stub:
            for run_id in runs:

                async def told(stub: Any = stub, run_id: str = run_id) -> bool:
                    answers = await all_of(stub.StreamLogs(wire.StreamLogsRequest(run_id=run_id)))
                    return [a.lines[0].text for a in answers] == ["hello"]

                await eventually(told, 10)


async def test_a_slow_follower_is_told_what_it_missed_and_holds_nothing_up(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start(RUNSPINE_FOLLOW_MIB="1")
    await archived.say(run_id, steps=step_batch(steps("a", 0, [0.0] * 10, 1)))
    async with archived.stub(service) as stub:
        call = stub.StreamSteps(wire.StreamRequest(run_id=run_id, follow=True))
        first = await asyncio.wait_for(call.read(), 60)
        assert first.missed_from == 0

        async def flow(of: str) -> list[int]:
            told = []
            for n in range(1, 241):
                block = steps("a", 10_000 * n, [float(n)] * 8_000, 10_000 * n)
                told.append(await archived.say(of, steps=step_batch(block)))
            await archived.archived_to(told[-1])
            return told

        # What archiving itself takes is taken first, by a run that nobody follows.
        await flow(await archived.rig.submit("true"))
        before = service.rss_mib
        positions = await flow(run_id)
        grown = service.rss_mib - before
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
    assert grown < 120, f"{grown:.0f} MiB"


async def test_logs_are_searched_by_text_and_by_expression(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    for n in range(20):
        position = await archived.say(run_id, logs=line(f"step {n} loss={n / 2}", n + 1))
        if n == 10:
            await archived.archived_to(position)
    async with archived.stub(service) as stub:

        async def found(**how: Any) -> list[str]:
            answers = await all_of(stub.SearchLogs(wire.SearchLogsRequest(run_id=run_id, **how)))
            return [told.text for answer in answers for told in answer.lines]

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
    position = await archived.say(run_id, steps=step_batch(steps("a", 0, [1.0, 2.0, 3.0], 5)))
    await archived.archived_to(position)
    await archived.say(run_id, steps=step_batch(steps("b", 0, [4.0], 8)))
    await archived.say(run_id, metrics=metric("loss", [0.5, 0.25]))
    secret = tmp_path / "secret.csv"
    secret.write_text("a,b\n1,2\n")
    async with archived.stub(service) as stub:

        async def ask(query: str, **how: Any) -> list[dict[str, Any]]:
            answers = await all_of(stub.Sql(wire.SqlRequest(run_id=run_id, query=query, **how)))
            data = b"".join(answer.arrow for answer in answers)
            return list(pa.ipc.open_stream(data).read_all().to_pylist())

        told = await ask(
            "SELECT episode_id, sum(reward) r, max(global_step) g FROM steps GROUP BY 1 ORDER BY 1"
        )
        assert told == [{"episode_id": "a", "r": 6.0, "g": 7}, {"episode_id": "b", "r": 4.0, "g": 8}]
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


async def test_without_the_archive_nothing_is_told_that_would_not_be_whole(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    await trim(archived, service, await archived.say(run_id, logs=line("first")))
    await archived.say(run_id, logs=line("second", 2))
    blind = archived.start(RUNSPINE_S3_ENDPOINT=f"127.0.0.1:{free_port()}")
    async with archived.stub(blind) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await all_of(stub.StreamLogs(wire.StreamLogsRequest(run_id=run_id)))
        assert caught.value.code() == grpc.StatusCode.UNAVAILABLE


async def test_a_damaged_segment_is_noticed(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    position = await archived.say(run_id, metrics=metric("loss", [float(n) for n in range(100)]))
    await trim(archived, service, position)
    [segment] = (await archived.archive()).of(run_id, "metrics")
    data = bytearray(await archived.blobs.get(segment.key) or b"")
    # A bit here and there in the pages; the footer is whole.
    for at in range(40, len(data) // 3, 40):
        data[at] ^= 1
    await archived.blobs.put(segment.key, bytes(data))
    async with archived.stub(service) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await all_of(stub.StreamMetrics(wire.StreamRequest(run_id=run_id)))
        assert caught.value.code() == grpc.StatusCode.DATA_LOSS
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.QueryMetrics(wire.QueryMetricsRequest(run_id=run_id, names=["loss"]))
        assert caught.value.code() == grpc.StatusCode.DATA_LOSS
        await archived.blobs.delete(segment.key)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await all_of(stub.StreamMetrics(wire.StreamRequest(run_id=run_id)))
        assert caught.value.code() == grpc.StatusCode.DATA_LOSS


async def test_segments_can_be_read_by_anything_that_reads_parquet(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    archived.start()
    sent = steps("a", 0, [1.0, -0.0, math.nan], 7)
    position = await archived.say(run_id, steps=step_batch(sent))
    await archived.archived_to(position)
    [segment] = (await archived.archive()).of(run_id, "steps")
    table = parquet.from_bytes(await archived.blobs.get(segment.key) or b"")
    assert table["step"].to_pylist() == [0, 1, 2]
    assert table["observation"].to_pylist()[2] == [9.0, -9.0]
    assert np.signbit(table["reward"].to_numpy()[1])

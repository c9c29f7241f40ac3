"""The SDK through a real worker: what the trainer did is what is on the stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from runspine.wire.v1.facts_pb2 import EXITED
from runspine.wire.v1.telemetry_pb2 import Array, Batch, StepBlock
from tests.kit.paths import ROOT
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.s3 import S3Server
from tests.kit.waiting import eventually
from tests.kit.worker import Rig

VECTOR = """
import gymnasium as gym, numpy as np, runspine
run = runspine.init()
envs = runspine.wrap(gym.make_vec("CartPole-v1", num_envs=3, vectorization_mode="sync"))
dice = np.random.default_rng(run.seed)
envs.reset(seed=run.seed)
for step in range(700): envs.step(dice.integers(0, 2, 3))
run.log({"charts/a": 1.0, "charts/b": float("nan")}, step=2100)
print("steps", run.steps, "dropped", run.dropped, flush=True)
"""


FRAMES = """
import numpy as np, os, runspine
from tests.kit.samples.batched_envs import ArrayVector
run = runspine.init()
FD = int(os.environ["RUNSPINE_TELEMETRY_FD"])
bare = ArrayVector(64, same_step=True)
env = runspine.wrap(bare)
env.reset()
for number in range(300):
    env.step(np.full(64, number % 2))
    if number % 100 == 0:
        run.log({"charts/a": number}, step=number)
    if number == 150:
        run.flush()
        # A frame that lies about its length, one that is damaged and one that is cut in the middle.
        os.write(FD, b"\\xffRSFRAME" + b"\\xff" * 8 + b"\\n")
        os.write(FD, b"\\xffRSFRAME\\x05\\0\\0\\0\\0\\0\\0\\0" + b"abcde")
run.flush()
os.write(FD, b"\\xffRSFRAME\\xff\\0\\0\\0\\0\\0\\0\\0abc")
print("played", len(bare.episodes.ended), sum(value for *_, value in bare.episodes.ended), flush=True)
"""


@pytest.fixture
async def rig(
    nats_server: NatsServer, s3_server: S3Server, connect: Any, tmp_path: Path
) -> AsyncIterator[Rig]:
    await s3_server.ready()
    mine = await connect("rig")
    rig = Rig(nats_server.url, tmp_path, mine.link, mine.publisher, mine.log)
    await rig.consumer()
    rig.worker("w1", 2, **s3_server.environment)
    yield rig
    await asyncio.to_thread(rig.stop)
    for worker in rig.workers:
        assert "Traceback" not in worker.log(), worker.log()


def rows(column: Array, count: int) -> np.ndarray[Any, Any]:
    return np.frombuffer(column.data, column.dtype).reshape(count, *column.shape)


def blocks_of(batches: list[Batch]) -> dict[str, list[StepBlock]]:
    """Blocks by episode, without a gap."""
    found: dict[str, list[StepBlock]] = {}
    for batch in batches:
        for block in batch.steps.blocks:
            before = found.setdefault(block.episode_id, [])
            assert block.first_step == (before[-1].first_step + before[-1].count if before else 0)
            before.append(block)
    return found


def walk_again(batches: list[Batch]) -> tuple[int, int]:
    """Every episode on a bare env, step by step as recorded; how many steps and ended episodes."""
    blocks = blocks_of(batches)
    ended = {episode.episode_id: episode for batch in batches for episode in batch.episodes.episodes}
    env = gym.make("CartPole-v1")
    steps = 0
    for reset in [reset for batch in batches for reset in batch.envs.resets]:
        env.unwrapped.np_random.bit_generator.state = json.loads(reset.rng_json)
        first, _ = env.reset(seed=json.loads(reset.seed_json) if reset.seed_json else None)
        np.testing.assert_array_equal(first, rows(reset.observation, 1)[0])
        total, length = 0.0, 0
        for block in blocks.pop(reset.episode_id, []):
            named = (block.action, block.observation, block.reward)
            columns = (rows(column, block.count) for column in named)
            for action, observation, reward, flags in zip(*columns, block.flags, strict=True):
                seen, given, terminated, truncated, _ = env.step(action)
                np.testing.assert_array_equal(seen, observation)
                assert (given, terminated, truncated) == (reward, flags & 1 > 0, flags & 2 > 0)
                total, length = total + float(given), length + 1
        if reset.episode_id in ended:
            emitted = ended[reset.episode_id]
            assert (getattr(emitted, "return"), emitted.steps) == (total, length)
        steps += length
    assert not blocks
    return steps, len(ended)


async def test_the_example_trainer_leaves_every_step_on_the_stream(rig: Rig) -> None:
    script = str(ROOT / "examples" / "sdk_trainer.py")
    run_id = await rig.submit("python", script, total_steps=3000, env="CartPole-v1", seed=4)
    exited = await rig.exited(run_id, seconds=60)
    assert (exited.outcome, exited.exit_code, exited.reason) == (EXITED, 0, "exit code 0")

    async def all_there() -> list[Batch] | None:
        found = await rig.batches(run_id)
        emitted = sum(block.count for batch in found for block in batch.steps.blocks)
        return found if emitted == exited.counts.steps else None

    batches = await eventually(all_there)
    steps, episodes = walk_again(batches)
    assert steps == exited.counts.steps >= 3000
    assert episodes == exited.counts.episodes
    assert exited.counts.malformed == 0
    (text,) = await rig.texts(run_id)
    assert text.startswith(f"done after {steps} steps")
    kinds = [fact.WhichOneof("kind") for fact in await rig.attempts(run_id)]
    # The description and the checkpoint are recorded by two tasks, in either order.
    assert (kinds[0], kinds[-1]) == ("attempt_started", "attempt_exited")
    assert sorted(kinds[1:-1]) == ["artifact_produced", "trainer_described"]
    (made,) = [made for batch in batches for made in batch.envs.made]
    assert (made.env_id, made.versions["gymnasium"]) == ("CartPole-v1", gym.__version__)


async def test_a_vector_env_in_a_real_run_gives_columns_for_each_slot(rig: Rig) -> None:
    run_id = await rig.python(VECTOR, seed=9)
    exited = await rig.exited(run_id, seconds=60)
    assert exited.exit_code == 0, exited.stderr_tail

    async def all_there() -> list[Batch] | None:
        found = await rig.batches(run_id)
        emitted = sum(block.count for batch in found for block in batch.steps.blocks)
        return found if emitted == exited.counts.steps else None

    batches = await eventually(all_there)
    steps, episodes = walk_again(batches)
    assert (steps, episodes) == (exited.counts.steps, exited.counts.episodes)
    # A step in which an env is reset is no step of an episode.
    resets = [reset for batch in batches for reset in batch.envs.resets]
    assert steps + len(resets) - 3 == 2100
    assert {reset.slot for reset in resets} == {0, 1, 2}
    assert (exited.counts.metrics, exited.counts.malformed) == (2, 0)
    # One is printed, the other is of the telemetry: two pipes, in no order.
    remark, printed = sorted(await rig.texts(run_id))
    assert printed == f"steps {steps} dropped 0"
    assert remark.startswith("charts/b is nan at step 2,100: ")


async def test_frames_and_lines_mix_and_broken_frames_are_stated_on_their_own_run(rig: Rig) -> None:
    run_id = await rig.python(FRAMES, variables={"PYTHONPATH": str(ROOT)})
    exited = await rig.exited(run_id, seconds=60)
    assert exited.exit_code == 0, exited.stderr_tail

    async def all_there() -> list[Batch] | None:
        found = await rig.batches(run_id)
        emitted = sum(block.count for batch in found for block in batch.steps.blocks)
        return found if emitted == exited.counts.steps else None

    batches = await eventually(all_there)
    blocks_of(batches)
    assert (exited.counts.steps, exited.counts.metrics, exited.counts.malformed) == (64 * 300, 3, 3)
    returns = [getattr(each, "return") for batch in batches for each in batch.episodes.episodes]
    texts = await rig.texts(run_id)
    (played,) = [text for text in texts if text.startswith("played")]
    _, count, total = played.split()
    assert (len(returns), sum(returns)) == (int(count), pytest.approx(float(total)))
    problems = [text for text in texts if "frame of telemetry cannot be read" in text]
    for words in ("its length is", "checksum", "cut in the middle"):
        assert sum(words in text for text in problems) == 1, texts

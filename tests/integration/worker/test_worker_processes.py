"""Every process of a run records, however it was started: steps recorded are steps made."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from runspine.wire.v1.facts_pb2 import AttemptExited
from runspine.wire.v1.telemetry_pb2 import Batch
from tests.kit.worker import Rig

# Makes so many steps in an env, and writes how many into a file.
TRAIN = """
import os, pathlib, sys
import gymnasium as gym
def train(steps):
    env = gym.make("CartPole-v1")
    env.reset(seed=1)
    for step in range(steps):
        _, _, terminated, truncated, _ = env.step(step % 2)
        if terminated or truncated:
            env.reset()
    pathlib.Path(os.environ["RUNSPINE_RUN_DIR"], f"made-{os.getpid()}").write_text(str(steps))
"""
# The program closes nothing, and its children end in every usual way.
SUBPROCESS = (
    TRAIN
    + """
import subprocess
if __name__ == "__main__":
    depth = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    if depth < 2:
        subprocess.run([sys.executable, __file__, str(depth + 1)], check=True)
    train(300 + depth)
"""
)
MULTIPROCESSING = (
    TRAIN
    + """
import multiprocessing
if __name__ == "__main__":
    for method in ("spawn", "forkserver", "fork"):
        context = multiprocessing.get_context(method)
        children = [context.Process(target=train, args=(200 + number,)) for number in range(2)]
        [child.start() for child in children]
        [child.join() for child in children]
        assert [child.exitcode for child in children] == [0, 0]
"""
)
VECTOR = """
import os, pathlib, sys
import gymnasium as gym, numpy as np
def make():
    return gym.make("CartPole-v1")
if __name__ == "__main__":
    made = 0
    for context in ("spawn", "forkserver"):
        envs = gym.vector.AsyncVectorEnv([make] * 2, context=context)
        envs.reset(seed=1)
        ended = np.zeros(2, bool)
        for step in range(400):
            made += int((~ended).sum())
            _, _, terminated, truncated, _ = envs.step(np.full(2, step % 2))
            ended = terminated | truncated
        envs.close()
    pathlib.Path(os.environ["RUNSPINE_RUN_DIR"], "made-all").write_text(str(made))
"""
TORCHRUN = (
    TRAIN
    + """
import torch.distributed as dist
from torch.utils.tensorboard import SummaryWriter
dist.init_process_group("gloo")
rank = dist.get_rank()
writer = SummaryWriter(f"runs/rank-{rank}") if rank == 0 else None
train(500 + rank)
if writer:
    for step in range(10):
        writer.add_scalar("loss", 1 / (1 + step), step)
    writer.close()
dist.barrier()
dist.destroy_process_group()
"""
)
ACCELERATE = (
    TRAIN
    + """
from accelerate import Accelerator
accelerator = Accelerator(cpu=True)
assert accelerator.num_processes == 2
train(400 + accelerator.process_index)
accelerator.wait_for_everyone()
accelerator.end_training()
"""
)
TORCHRUN_WORDS = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
# Its `--cpu` starts one process; without GPUs this starts two that train on the CPU.
ACCELERATE_WORDS = (
    *("-m", "accelerate.commands.launch", "--multi_gpu", "--num_machines=1", "--num_processes=2"),
    *("--mixed_precision=no", "--dynamo_backend=no"),
)
# By how processes are started: the program, what goes before it, and its steps.
LAUNCHES = {
    "torchrun, 2 ranks": (TORCHRUN, TORCHRUN_WORDS, 1001),
    "accelerate launch, 2 processes": (ACCELERATE, ACCELERATE_WORDS, 801),
    "AsyncVectorEnv, spawn and forkserver": (VECTOR, (), 0),
    "a subprocess in a subprocess": (SUBPROCESS, (), 903),
    "multiprocessing: spawn, forkserver, fork": (MULTIPROCESSING, (), 1203),
}
RANKS = """
import os, subprocess, sys
CHILD = '''
import gymnasium as gym, runspine
run = runspine.init({"lr": 0.1})
envs = runspine.wrap(gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"))
envs.reset(seed=1)
for step in range(50):
    envs.step([0, 1])
    run.log({"loss": step}, step=step)
    run.progress(step)
'''
ranks = [
    subprocess.Popen([sys.executable, "-c", CHILD], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": "2"})
    for rank in range(2)
]
assert [rank.wait() for rank in ranks] == [0, 0]
"""
KILLED = """
import os, signal, socket, subprocess, sys
path = os.environ["RUNSPINE_TELEMETRY_SOCKET"]
silent = [socket.socket(socket.AF_UNIX) for _ in range(3)]
[each.connect(path) for each in silent]
torn = '''
import os, signal, socket
line = socket.socket(socket.AF_UNIX)
line.connect(os.environ["RUNSPINE_TELEMETRY_SOCKET"])
line.sendall(b'{"type":"metric","name":"a","value":1,"step":1}\\\\n{"type":"metric","na')
os.kill(os.getpid(), signal.SIGKILL)
'''
subprocess.run([sys.executable, "-c", torn])
whole = '''
import runspine
for step in range(2000): runspine.log({"b": step}, step=step)
'''
children = [subprocess.Popen([sys.executable, "-c", whole]) for _ in range(2)]
assert [child.wait() for child in children] == [0, 0]
"""


async def made_and_recorded(rig: Rig, folder: Path, script: str, *before: str) -> tuple[int, AttemptExited]:
    """Run it as a file; the steps that its processes made, and how the attempt ended."""
    path = folder / "train.py"
    path.write_text(script)
    run_id = await rig.submit("python", *before, str(path))
    exited = await rig.exited(run_id, seconds=240)
    texts = await rig.texts(run_id)
    assert exited.exit_code == 0, texts
    assert not exited.counts.malformed, texts
    directory = Path((await rig.started(run_id)).attempt_started.directory)
    made = sum(int(path.read_text()) for path in directory.glob("made-*"))
    ids = [made.episode_id for batch in await rig.batches(run_id) for made in batch.envs.resets]
    assert len(ids) == len(set(ids)) > 0
    return made, exited


# A sandbox, where the machine allows one, and none.
@pytest.mark.parametrize(
    ("script", "sandbox"),
    [
        pytest.param(SUBPROCESS, "auto", id="subprocess-auto"),
        pytest.param(MULTIPROCESSING, "auto", id="multiprocessing-auto"),
        pytest.param(VECTOR, "auto", id="vector env-auto"),
        pytest.param(SUBPROCESS, "off", id="subprocess-off"),
        pytest.param(MULTIPROCESSING, "off", id="multiprocessing-off", marks=pytest.mark.long),
        pytest.param(VECTOR, "off", id="vector env-off", marks=pytest.mark.long),
    ],
)
async def test_steps_recorded_are_steps_made_in_every_process(
    rig: Rig, tmp_path: Path, script: str, sandbox: str
) -> None:
    rig.worker(RUNSPINE_WORKER_SANDBOX=sandbox)
    made, exited = await made_and_recorded(rig, tmp_path, script)
    assert exited.counts.steps == made > 0


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_the_table_of_launches_has_no_step_too_few_or_too_many(
    rig: Rig, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.worker(RUNSPINE_WORKER_SANDBOX="auto")
    table = []
    for how, (script, words, steps) in LAUNCHES.items():
        made, exited = await made_and_recorded(rig, tmp_path, script, *words)
        table.append((how, made, exited.counts.steps, steps or made))
    with capsys.disabled():
        print(f"\n{'started by':42} {'made':>6} {'recorded':>9}")
        for how, made, recorded, _ in table:
            print(f"{how:42} {made:6} {recorded:9}")
    assert all(made == recorded == steps > 0 for _, made, recorded, steps in table), table


async def test_ranks_have_slots_of_their_own_and_metrics_are_not_doubled(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(RANKS)
    exited = await rig.exited(run_id)
    assert exited.exit_code == 0, await rig.texts(run_id)
    batches = await rig.batches(run_id)
    # In NEXT_STEP mode a step that resets is no step of an episode.
    resets = Counter(reset.slot for batch in batches for reset in batch.envs.resets)
    assert set(resets) == {0, 1, 2, 3}
    assert exited.counts.steps == 4 * 50 - sum(resets.values()) + 4
    points = Counter(points_of(batches))
    assert points["loss"] == points["rank1/loss"] == 50
    configs = [config for batch in batches for config in batch.envs.configs]
    assert len(configs) == 1


async def test_a_process_killed_in_a_line_or_silent_for_ever_harms_no_other(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(KILLED)
    exited = await rig.exited(run_id)
    assert exited.exit_code == 0, await rig.texts(run_id)
    points = Counter(points_of(await rig.batches(run_id)))
    assert (points["a"], points["b"]) == (1, 4000)
    assert exited.counts.malformed == 1


def points_of(batches: list[Batch]) -> list[str]:
    blocks = [block for batch in batches for block in batch.metrics.blocks]
    return [block.name for block in blocks for _ in block.steps]

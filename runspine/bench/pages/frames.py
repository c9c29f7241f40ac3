"""`runspine bench frames`: cost of live frames for a trainer with 0, 1 and 10 viewers, and memory."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import gymnasium
import numpy as np
import psutil

from runspine.bench.kit.drain import drained
from runspine.bench.kit.figures import Report
from runspine.bench.kit.screen import Announce
from runspine.bench.kit.trivial import TrivialEnv
from runspine.bench.trainers.capture import LONG, STEPS_A_ROUND, Cost, Twin, in_turn
from runspine.bench.trainers.capture import walk as walk_one
from runspine.embedded.binaries import find_binary
from runspine.embedded.ports import PortBook
from runspine.sdk.run import Run
from runspine.sdk.wrapping import wrapped
from runspine.services.worker.live.view_socket import SOCKET_NAME

ENVS, FPS, WIDTH = 8, 15, 320
IDLE_ROUNDS = 15
SIZES = (84, 160, 240, 400, 480, 600, 800, 1440)
MIXED_SLOTS, MIXED_FPS, MIXED_WIDTH = 16, 15, 640
MIB = 1 << 20


def bench_frames(iterations: int, seconds: float, announce: Announce) -> Report:
    report = Report("Live frames")
    with tempfile.TemporaryDirectory(prefix="rs-", dir="/tmp") as scratch, nats() as url:
        folder = Path(scratch)
        announce("a trivial env, captured with a view without viewers and without a view: rounds in turn")
        measure_idle(report, url, folder)
        with (
            drained(folder) as plain,
            drained(folder, VIEW=str(folder / SOCKET_NAME)) as seen,
            worker(url, folder),
        ):
            with contextlib.redirect_stdout(io.StringIO()):
                bare = Twin(folder / "bare", plain.run, num_envs=ENVS)
                shown = Twin(folder / "shown", seen.run, num_envs=ENVS)
            for viewers in (0, 1, 10):
                announce(
                    f"PPO on CartPole-v1, {ENVS} envs, {viewers} viewers: {iterations} iterations in turn"
                )
                measure_speed(report, url, bare, shown, seen.run, viewers, iterations)
            assert bare.weights() == shown.weights(), "viewers have changed what is learnt"
            announce("how long drawing goes on when the viewer is killed")
            measure_silence(report, url, shown, seen.run)
        announce(
            f"{MIXED_SLOTS} slots of mixed sizes, {max(SIZES)} × {max(SIZES)} among them: {seconds:.0f} s"
        )
        measure_memory(report, url, folder, seconds)
    return report


def measure_idle(report: Report, url: str, folder: Path) -> None:
    """CPU time of a step where the env costs almost nothing: the least that a view costs."""
    with (
        drained(folder) as plain,
        drained(folder, VIEW=str(folder / SOCKET_NAME)) as seen,
        worker(url, folder),
    ):
        alone = wrapped(plain.run, TrivialEnv(LONG), None)
        shown = wrapped(seen.run, TrivialEnv(LONG), None)
        pairs = [(walk_one(alone, STEPS_A_ROUND), walk_one(shown, STEPS_A_ROUND)) for _ in range(IDLE_ROUNDS)]
    added = median(after[0] - before[0] for before, after in pairs)
    each = median(before[0] for before, _ in pairs)
    report.add(
        "CPU for a step with a view that has no viewer", added, "µs",
        target="≤ 0.05 µs", met=added <= 0.05,
        context=f"a captured step of a trivial env takes {each:.2f} µs without one",
    )  # fmt: skip


def measure_speed(
    report: Report, url: str, bare: Twin, shown: Twin, run: Run, viewers: int, iterations: int
) -> None:
    drawn = run.view.drawn
    with contextlib.ExitStack() as stack:
        result: dict[str, Any] = {}
        if viewers:
            stack.enter_context(viewing(url, viewers, FPS, WIDTH, result))
            until(lambda: run.view.request is not None)
        pairs = [in_turn(bare, shown, first=index % 2 == 0) for index in range(iterations)]
    if not viewers:
        assert run.view.drawn == drawn, "drawn without a viewer"
    pairs = pairs[min(5, iterations // 4) :]
    wall, noise = ratio(pairs)
    cpu = sum(before[0] for before, _ in pairs) / sum(after[0] for _, after in pairs)
    who = {0: "no viewer", 1: "one viewer"}.get(viewers, f"{viewers} viewers")
    target = {"target": "≥ 0.99", "met": wall + noise >= 0.99} if not viewers else {}
    spent = sum(after[1] for _, after in pairs)
    context = f"by CPU time {cpu:.3f}; the same weights bit by bit"
    if viewers:
        rate = (run.view.drawn - drawn) / ENVS / spent
        context += (
            f"; {rate:.1f} frames/s of each of {result['slots']} slots while it trains, drawn → received "
            f"p50 {result['delay_p50'] * 1e3:.0f} ms, p95 {result['delay_p95'] * 1e3:.0f} ms"
        )
    report.add(
        f"PPO CartPole, {ENVS} envs at {FPS} fps, speed ÷ without a view: {who}",
        wall, f"± {noise:.3f}", **target, context=context,
    )  # fmt: skip


def ratio(pairs: list[tuple[Cost, Cost]]) -> tuple[float, float]:
    wall = median(before[1] / after[1] for before, after in pairs)
    spread = median(abs(before[1] / after[1] - wall) for before, after in pairs)
    return wall, 1.5 * spread / len(pairs) ** 0.5


def measure_silence(report: Report, url: str, shown: Twin, run: Run) -> None:
    """Kill the viewer's process while the trainer goes on, and time the last frame."""
    viewer = side("viewers", url, "bench", "1", str(FPS), str(WIDTH))
    assert viewer.stdout
    viewer.stdout.readline()
    until(lambda: run.view.request is not None)
    for _ in range(3):
        shown.iterate()
    viewer.kill()
    viewer.wait()
    killed = time.monotonic()
    times = [killed]
    watch = threading.Thread(target=note_frames, args=(run, killed + 6, times))
    watch.start()
    while watch.is_alive():
        shown.iterate()
    taken = times[-1] - killed
    report.add("the last frame after the viewer was killed", taken, "s", target="≤ 3.5 s", met=taken <= 3.5)


def note_frames(run: Run, end: float, times: list[float]) -> None:
    """Append the times at which frames were drawn."""
    drawn = run.view.drawn
    while (now := time.monotonic()) < end:
        if run.view.drawn > drawn:
            drawn = run.view.drawn
            times.append(now)
        time.sleep(0.01)


class Painted(gymnasium.Env[Any, Any]):
    """Draws noise of a given size, the worst case for an encoder."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, size: int) -> None:
        self._picture = np.random.default_rng(size).integers(0, 255, (size, size, 3), np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        super().reset(seed=seed)
        return 0, {}

    def step(self, action: Any) -> Any:
        time.sleep(0.0005)
        return 0, 1.0, False, False, {}

    def render(self) -> Any:
        self._picture[0] += 1
        return self._picture.copy()


def measure_memory(report: Report, url: str, folder: Path, seconds: float) -> None:
    with drained(folder, VIEW=str(folder / SOCKET_NAME)) as drain:
        sizes = [SIZES[slot % len(SIZES)] for slot in range(MIXED_SLOTS)]
        envs = [wrapped(drain.run, Painted(size), slot) for slot, size in enumerate(sizes)]
        result: dict[str, Any] = {}
        with worker(url, folder, result):
            for env in envs:
                env.reset(seed=1)
            walk(envs, 1.0)
            before = peak = psutil.Process().memory_info().rss
            seen: dict[str, Any] = {}
            with viewing(url, 1, MIXED_FPS, MIXED_WIDTH, seen):
                peak = max(peak, walk(envs, seconds))
    raw = sum(size * size * 3 for size in sizes) / MIB
    report.add(
        f"memory of the trainer beyond its own, {MIXED_SLOTS} slots up to {max(SIZES)} × {max(SIZES)}",
        (peak - before) / MIB, "MiB",
        target="≤ 128 MiB", met=peak - before <= 128 * MIB,
        context=f"one frame of each is {raw:.0f} MiB; {seen['slots']} slots seen, {MIXED_WIDTH} wide",
    )  # fmt: skip
    grown = result["peak"] - result["before"]
    report.add(
        "memory of the worker beyond its own, the same",
        grown / MIB,
        "MiB",
        target="≤ 192 MiB",
        met=grown <= 192 * MIB,
        context=f"{seen['frames'] / max(seen['seconds'], 0.1):.0f} frames/s to the viewer",
    )


def walk(envs: list[Any], seconds: float) -> int:
    """Step all envs for this long; return the peak memory."""
    deadline, peak = time.monotonic() + seconds, 0
    while time.monotonic() < deadline:
        for env in envs:
            env.step(0)
        peak = max(peak, psutil.Process().memory_info().rss)
    return peak


@contextlib.contextmanager
def nats() -> Iterator[str]:
    """A nats-server without streams: frames are not stored."""
    with contextlib.closing(PortBook(Path("never-saved.json"), use_defaults=False)) as book:
        port = book.choose("nats")
        book.release_all()
        command = [str(find_binary("nats-server")), "--addr", "127.0.0.1", "--port", str(port)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            yield f"nats://127.0.0.1:{port}"
        finally:
            process.terminate()
            process.wait()


def side(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "runspine.bench.pages.frames_sides", *words]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@contextlib.contextmanager
def worker(url: str, folder: Path, result: dict[str, Any] | None = None) -> Iterator[None]:
    with _side(result if result is not None else {}, "worker", url, "bench", str(folder)):
        yield


@contextlib.contextmanager
def viewing(url: str, count: int, fps: float, width: int, result: dict[str, Any]) -> Iterator[None]:
    with _side(result, "viewers", url, "bench", str(count), str(fps), str(width)):
        yield


@contextlib.contextmanager
def _side(result: dict[str, Any], *words: str) -> Iterator[None]:
    """A side process, once it is ready; its final output is added to `result`."""
    process = side(*words)
    assert process.stdout
    process.stdout.readline()
    try:
        yield
    finally:
        result.update(json.loads(process.communicate(timeout=60)[0].splitlines()[-1]))


def until(probe: Callable[[], bool], seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.005)

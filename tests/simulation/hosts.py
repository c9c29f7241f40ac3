"""The machines of workers: trainers that run, end, are stopped or outlive their worker."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from runspine.runners import Launch
from runspine.services.worker import worker as worker_module
from runspine.services.worker.attempt import attempt as attempt_module
from runspine.services.worker.attempt import recovery
from runspine.services.worker.claim import provenance
from runspine.services.worker.claim.preflight import PreflightResponder
from runspine.services.worker.claim.provenance import Interpreter
from runspine.services.worker.machine import status as machine_status
from runspine.services.worker.process.cgroup import Hits
from runspine.services.worker.process.telemetry_socket import SOCKET_NAME, Serve
from runspine.services.worker.process.trainer_process import TrainerExit, TrainerProcess
from runspine.services.worker.telemetry import shipper
from runspine.wire.v1.facts_pb2 import Capacity
from runspine.wire.v1.preflight_pb2 import PreflightRequest
from runspine.wire.v1.run_pb2 import MachineStatus
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import TRAIN, RunSpec
from tests.simulation.loop import NODE
from tests.simulation.training import EPISODES, Training
from tests.simulation.world import World, here

RUNNER = "simulated"
TRAINING_SECONDS = (0.05, 4.0)
# A trainer whose reaper is stopped, as by a debugger, trains on after its worker was killed.
STOPPED_SHARE = 0.15
# How many schedules have such trainers without a fault that aims at them.
STOPPED_SCHEDULES = 0.25
STOPPED_SECONDS = (15.0, 40.0)
FAILING_SHARE = 0.3
# What asking an interpreter gives; a process for each worker would cost more than the schedule.
PROBED = provenance.Interpreter("3.11.0", b"package==1\n")


class SimulatedRunner:
    """A runner without a program: the host plays the trainer."""

    def info(self) -> RunnerInfo:
        return RunnerInfo(name=RUNNER, modes=[TRAIN], open_params=True, resumes=True)

    def launch(self, _: RunSpec, run_dir: Path, python: str) -> Launch:
        return Launch([python], run_dir)


@dataclass(eq=False)
class Life:
    """One trainer process, as it was."""

    run_id: str
    attempt: int
    worker: str
    directory: str
    start: float
    stopped: bool
    end: float | None = None
    exit: TrainerExit | None = None

    def __str__(self) -> str:
        return f"attempt {self.attempt} on {self.worker} from {self.start:.2f} to {self.end}"


class SimulatedTrainer:
    """What an attempt holds of its trainer."""

    def __init__(self, hosts: Hosts, life: Life) -> None:
        self._hosts = hosts
        self.life = life
        self.process = SimpleNamespace(pid=0)
        self.stdout, self.stderr, self.telemetry = (asyncio.StreamReader() for _ in range(3))
        self.cgroup = None
        self.enforced: frozenset[str] = frozenset()
        self.hits = Hits()
        self._gone = asyncio.Event()

    def ended(self) -> None:
        """Called within the worker's process."""
        for stream in (self.stdout, self.stderr, self.telemetry):
            stream.feed_eof()
        self._gone.set()

    def term(self, grace: float) -> None:
        delay = self._hosts.world.random.choice((0.0, grace / 2, grace))
        self._hosts.world.loop.after(delay, self._hosts.end, self.life, TrainerExit(signal=15))

    def kill(self) -> None:
        self._hosts.end(self.life, TrainerExit(signal=9))

    kill_reaper = kill

    async def wait(self) -> TrainerExit:
        await self._gone.wait()
        assert self.life.exit is not None
        return self.life.exit

    def close(self) -> None:
        """Nothing to close."""


@dataclass
class Hosts:
    """Every trainer of a schedule."""

    world: World
    # Whether trainers write steps, lines and checkpoints; else they only live for a while.
    training: bool = False
    lives: list[Life] = field(default_factory=list)
    trainings: list[Training] = field(default_factory=list)
    # Called with the worker of the trainer that writes the next checkpoint, once.
    on_checkpoint: Callable[[str], None] | None = None
    # Called with the worker of the next trainer, once; its reaper is stopped.
    on_stopped: Callable[[str], None] | None = None
    # How long trainers live that write nothing.
    seconds: tuple[float, float] = TRAINING_SECONDS
    stopped_share: float = 0.0
    _trainers: dict[int, tuple[Any, SimulatedTrainer]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.world.mix.often("stopped reapers", STOPPED_SCHEDULES):
            self.stopped_share = STOPPED_SHARE

    async def start(
        self, name: str, _c: Any, _d: Any, environment: dict[str, str], *_: Any, **__: Any
    ) -> Any:
        """In the place of TrainerProcess.start."""
        random = self.world.random
        await asyncio.sleep(random.uniform(0.01, 0.1))
        run_id, attempt = environment["RUNSPINE_RUN_ID"], int(environment["RUNSPINE_ATTEMPT"])
        directory = environment["RUNSPINE_RUN_DIR"]
        strike, self.on_stopped = self.on_stopped, None
        stopped = strike is not None or random.random() < self.stopped_share
        if strike is not None:
            strike(here())
        life = Life(run_id, attempt, here(), directory, self.world.loop.now, stopped)
        trainer = SimulatedTrainer(self, life)
        self.lives.append(life)
        self._trainers[id(life)] = (NODE.get(), trainer)
        self.world.loop.note(f"trainer {name} {stopped}")
        if self.training:
            self._train(trainer, environment)
            return trainer
        code = 1 if random.random() < FAILING_SHARE else 0
        seconds = random.uniform(*(STOPPED_SECONDS if stopped else self.seconds))
        self.world.loop.after(seconds, self.end, life, TrainerExit(exit_code=code))
        return trainer

    def _train(self, trainer: SimulatedTrainer, environment: dict[str, str]) -> None:
        life = trainer.life
        # By the name of its run, which its seed is part of: the same after every restart.
        run = self.world.plan.random(f"run {environment['RUNSPINE_SEED']}")
        chance = self.world.plan.random(f"trainer {environment['RUNSPINE_SEED']} {life.attempt}")
        training = Training(self, trainer, NODE.get(), environment, run.randint(*EPISODES), chance)
        self.trainings.append(training)
        training.begin()

    def checkpoint_written(self, worker: str) -> None:
        strike, self.on_checkpoint = self.on_checkpoint, None
        if strike is not None:
            strike(worker)

    def end(self, life: Life, how: TrainerExit) -> None:
        """The trainer's process is gone; its worker learns of it, if it lives."""
        if life.end is not None:
            return
        life.end, life.exit = self.world.loop.now, how
        node, trainer = self._trainers[id(life)]
        if node.alive:
            self.world.loop.within(node, trainer.ended)

    def worker_killed(self, name: str, *, at_once: bool = False) -> None:
        """A reaper ends the trainer with its worker, unless it is stopped itself. `at_once` with its host."""
        for life in self.lives:
            if life.worker != name or life.end is not None:
                continue
            if at_once:
                self.end(life, TrainerExit(signal=9))
            elif not life.stopped:
                delay = self.world.random.uniform(0.0, 0.2)
                self.world.loop.after(delay, self.end, life, TrainerExit(signal=9))

    def survivors(self, directory: str) -> list[Life]:
        return [life for life in self.lives if life.directory == directory and life.end is None]

    def end_survivors(self, lock: Path, timeout: float) -> bool:
        """In the place of survivors.end_survivors: it kills what is left, and may have to look again."""
        found = self.survivors(str(lock.parent))
        if not found:
            return True
        self.world.reach("worker.survivor_ended")
        if self.world.random.random() < 0.3:
            self.world.loop.slept += timeout
            return False
        for life in found:
            self.end(life, TrainerExit(signal=9))
        return True


def checked_at_once(responder: PreflightResponder, request: PreflightRequest) -> Any:
    """In the place of a launch check's own thread, as for every other thread."""
    loop = asyncio.get_running_loop()
    done = loop.create_future()

    def work() -> None:
        responder._running -= 1
        if not done.done():
            done.set_result(responder._checker.check(request))
        responder._next()

    loop.call_soon(work)
    return done


class UnusedSocket:
    """In the place of TelemetrySocket: simulated trainers have one process each, with the descriptor."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / SOCKET_NAME
        self._ended = asyncio.Event()

    def __enter__(self) -> UnusedSocket:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    async def accept(self, serve: Serve) -> None:
        await self._ended.wait()

    def end(self) -> None:
        self._ended.set()


@contextmanager
def simulated_hosts(hosts: Hosts) -> Iterator[None]:
    """Workers start their trainers on these hosts while it is open."""
    replaced: list[tuple[Any, str, Any]] = [
        (TrainerProcess, "start", hosts.start),
        (attempt_module, "TelemetrySocket", UnusedSocket),
        (recovery, "end_survivors", hosts.end_survivors),
        (worker_module, "adopt_orphans", lambda: None),
        (worker_module, "claim_subtree", lambda: None),
        (worker_module, "find_gpus", lambda *_: []),
        (provenance, "_probe", lambda _: Interpreter("CPython 3.11", b"numpy==2\n")),
        (worker_module, "measure", lambda *_: Capacity(cpus=4, memory_mib=8192)),
        # A second apart: five times fewer wake-ups of every attempt.
        (shipper, "TIDY_SECONDS", 1.0),
        (provenance, "_probe", lambda _: PROBED),
        (machine_status, "measure_machine", lambda *_: MachineStatus()),
        (PreflightResponder, "_in_thread", checked_at_once),
        (socket, "gethostname", here),
        (os, "getpid", lambda: 1000 + NODE.get().number),
    ]
    with ExitStack() as stack:
        for owner, name, value in replaced:
            stack.enter_context(patch.object(owner, name, value))
        yield

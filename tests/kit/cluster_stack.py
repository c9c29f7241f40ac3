"""The topology of deploy/k8s/base on one machine: three nats-servers, two orchestrators, workers."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import Phase
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub
from tests.kit.forks.module_process import Process, start_module
from tests.kit.orchestrator import Orchestrator, orchestrator
from tests.kit.servers.nats_cluster import NatsCluster, nats_cluster


@dataclass
class ClusterStack:
    cluster: NatsCluster
    folder: Path
    orchestrators: list[Orchestrator]
    workers: list[Process] = field(default_factory=list)

    def start_worker(self, slots: int = 4) -> Process:
        name = f"w{len(self.workers) + 1}"
        directory = self.folder / name
        directory.mkdir()
        environment = {
            **os.environ,
            **self.cluster.environment("worker"),
            "RUNSPINE_WORKER_ID": name,
            "RUNSPINE_WORKER_DIR": str(directory),
            "RUNSPINE_WORKER_SLOTS": str(slots),
            "RUNSPINE_WORKER_UPLOADS": "own",
        }
        with (directory / "stderr").open("wb") as errors:
            process = start_module("runspine.services.worker", environment, stderr=errors)
        self.workers.append(process)
        return process

    def stubs(self) -> list[TrainerServiceStub]:
        return [service.stub() for service in self.orchestrators]

    def phases(self, run_ids: list[str]) -> Counter[str]:
        """How many of these runs are in which phase, by the first orchestrator."""
        listed = self.orchestrators[0].stub().List(wire.ListRequest(page_size=1000)).runs
        runs = {entry.run.id: Phase.Name(entry.run.phase) for entry in listed}
        return Counter(runs.get(run_id, "UNKNOWN") for run_id in run_ids)

    def until_completed(self, run_ids: list[str], seconds: float = 240) -> None:
        deadline = time.monotonic() + seconds
        while (found := self.phases(run_ids)) != Counter({"COMPLETED": len(run_ids)}):
            assert time.monotonic() < deadline, found
            time.sleep(0.2)

    def crashes(self) -> list[str]:
        """What orchestrators and workers have reported of their own death."""
        outputs = [service.output() for service in self.orchestrators]
        outputs += [(self.folder / f"w{n}" / "stderr").read_text() for n in range(1, len(self.workers) + 1)]
        return [text[-3000:] for text in outputs if "crashed" in text or "Traceback" in text]


@contextmanager
def cluster_stack(folder: Path) -> Iterator[ClusterStack]:
    with ExitStack() as opened:
        cluster = opened.enter_context(nats_cluster(folder / "cluster"))
        environment = cluster.environment("orchestrator")
        services = [opened.enter_context(orchestrator(cluster, folder, **environment)) for _ in range(2)]
        stack = ClusterStack(cluster, folder, services)
        try:
            yield stack
        finally:
            for worker in stack.workers:
                worker.terminate()
            for worker in stack.workers:
                worker.wait(60)

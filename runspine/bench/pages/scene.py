"""A stack with its web page, and runs to show."""

from __future__ import annotations

import sys
import time
from pathlib import Path

from runspine.embedded.stack import Stack
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import (
    ENV_STEP,
    TIME,
    ListSeriesRequest,
    ListSeriesResponse,
    QueryMetricsRequest,
    QueryMetricsResponse,
)

ROOT = Path(__file__).parents[3]
# A metric that PPO logs once per rollout.
CLOCK = "losses/policy_loss"


class PageScene:
    """Submits runs and trainers to the stack behind the page."""

    def __init__(self, stack: Stack, scratch: Path) -> None:
        self.stack = stack
        self.scratch = scratch
        addresses = stack.addresses
        endpoint = Endpoint(
            addresses["orchestrator"], addresses["telemetry"], addresses["artifacts"], stack.token
        )
        self.client = Client(endpoint)
        self.page = f"http://{addresses['dashboard']}"
        self._number = 0

    def list_runs(self, count: int) -> None:
        """Submit runs that stay queued: no worker serves their pool."""
        for number in range(count):
            spec = RunSpec(
                runner="script", command=["true"], env=f"Env-{number % 40}", algo="ppo", pool="nowhere"
            )
            self.client.submit(spec)

    def trainer(self, steps: int, rate: float) -> str:
        """Start a trainer that waits for `go`; return its run."""
        self._number += 1
        ready = self.scratch / f"ready-{self._number}"
        command = [
            sys.executable, "-m", "runspine.bench.telemetry.trainer", "--steps", str(steps),
            "--seed", str(self._number), "--rate", str(rate),
            "--ready", str(ready), "--go", str(self.scratch / f"go-{self._number}"),
        ]  # fmt: skip
        run = self.client.submit(RunSpec(runner="script", command=command, workdir=str(ROOT), env="Walk")).run
        deadline = time.monotonic() + 180
        while not ready.exists():
            assert time.monotonic() < deadline, "the trainer did not get ready"
            time.sleep(0.05)
        return run.id

    def go(self) -> None:
        for number in range(1, self._number + 1):
            (self.scratch / f"go-{number}").touch()

    def learner(self, seed: int) -> str:
        """Submit a PPO on CartPole that learns until it is cancelled."""
        spec = RunSpec(runner="builtin", algo="ppo", env="CartPole-v1", seed=seed, total_steps=500_000_000)
        return self.client.submit(spec).run.id

    def course(self, run_id: str) -> tuple[list[float], list[float]]:
        """Times and steps of the trainer, from its telemetry."""
        names = self.client.call_telemetry("ListSeries", ListSeriesRequest(run_id=run_id), ListSeriesResponse)
        assert CLOCK in [series.name for series in names.series], names
        by_step, by_time = (
            self.client.call_telemetry(
                "QueryMetrics",
                QueryMetricsRequest(run_id=run_id, names=[CLOCK], axis=axis, max_points=100_000),
                QueryMetricsResponse,
            ).series[0]
            for axis in (ENV_STEP, TIME)
        )
        assert by_step.exact, "the series has too many points for an exact reply"
        # Training goes on between the two calls: the second reply has more points.
        count = min(len(by_step.x), len(by_time.x))
        return [micros / 1e6 for micros in by_time.x[:count]], list(by_step.x[:count])

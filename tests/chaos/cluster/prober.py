"""Writes without a pause through the client that people use, and keeps when each was acknowledged."""

from __future__ import annotations

import threading
import time
from itertools import count

import grpc

from runspine.errors import RunspineError, UnreachableError
from runspine.rpc.channel import Tls
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.spec_pb2 import RunSpec

PAUSE_SECONDS = 0.05
RECENT_SECONDS = 0.3
# A run's history is read for each change of it.
MAX_WRITES = 50
# No worker serves this pool.
POOL = "nowhere"


class Prober:
    """One thread; `acknowledged` has the times of `time.monotonic`."""

    def __init__(self, addresses: list[str], token: str) -> None:
        tls = Tls(allow_plaintext=True)
        self._endpoint = Endpoint(trainer=",".join(addresses), token=token, patience=30, tls=tls)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self.acknowledged: list[float] = []
        self.unreachable = 0
        self.failure: Exception | None = None

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(90)

    @property
    def writes(self) -> bool:
        """Whether a write was acknowledged just now."""
        return bool(self.acknowledged) and time.monotonic() - self.acknowledged[-1] < RECENT_SECONDS

    def _write(self) -> None:
        try:
            with Client(self._endpoint) as client:
                for number in count():
                    if self._stop.is_set():
                        return
                    self._one_run(client, number)
        except (RunspineError, grpc.RpcError) as error:
            self.failure = error

    def _one_run(self, client: Client, number: int) -> None:
        spec = RunSpec(runner="script", command=["true"], pool=POOL)
        try:
            run = client.submit(spec, f"prober-{number}").run
            self._acknowledge()
            for at in range(MAX_WRITES):
                if self._stop.is_set():
                    break
                client.set_labels(run.id, {"at": str(at)})
                self._acknowledge()
            client.cancel(run.id)
        except UnreachableError:
            self.unreachable += 1

    def _acknowledge(self) -> None:
        self.acknowledged.append(time.monotonic())
        time.sleep(PAUSE_SECONDS)

"""The workers of a stack that has just started."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from runspine.errors import RunspineError

if TYPE_CHECKING:
    from runspine.embedded.record import StackRecord

WAIT_SECONDS, POLL_SECONDS = 20.0, 0.05


def await_online(home: Path, record: StackRecord) -> None:
    """Wait until its workers are online: the next command may ask for what they offer.

    A worker with a quarantined subject is never online: it holds the start up, and does not fail it.
    """
    from runspine.embedded.plan import host_token
    from runspine.rpc.endpoint import find_endpoint
    from runspine.rpc.trainer_client import Client

    count = sum(name.partition("-")[0] == "worker" for name in record.parts)
    if not count or "orchestrator" not in record.addresses:
        return
    wanted = {f"{host_token()}-{number}" for number in range(1, count + 1)}
    elsewhere = ("RUNSPINE_ADDRESS", "RUNSPINE_TOKEN")
    here = {name: value for name, value in os.environ.items() if name not in elsewhere}
    give_up = time.monotonic() + WAIT_SECONDS
    # The stack is up, whatever this question comes to.
    with (
        contextlib.suppress(RunspineError),
        Client(find_endpoint({**here, "RUNSPINE_HOME": str(home)})) as client,
    ):
        while time.monotonic() < give_up:
            if wanted <= {worker.id for worker in client.workers() if worker.online}:
                return
            time.sleep(POLL_SECONDS)

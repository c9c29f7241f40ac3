"""nats-server as a part of the stack."""

from __future__ import annotations

import json
import logging
import shutil
from pathlib import Path

from runspine.embedded.binaries import find_binary
from runspine.embedded.credentials import Credentials
from runspine.embedded.home import Home, write_private
from runspine.embedded.nats_config import embedded_config, render
from runspine.embedded.part import Part, healthy_at
from runspine.embedded.ports import LOOPBACK, PortBook
from runspine.log.subjects import BEATS

log = logging.getLogger("runspine.embedded")


def nats_part(home: Home, credentials: Credentials, ports: PortBook, base: dict[str, str]) -> Part:
    port, monitor = ports.choose("nats"), ports.choose("nats-monitor")
    config = home.nats / "nats.conf"
    store = home.nats / "store"
    drop_torn_beats(store)
    write_private(config, render(embedded_config(port, monitor, str(store), credentials.nats)))
    # Not ?js-enabled-only: a stream that a full disk has frozen must show.
    health = f"http://{LOOPBACK}:{monitor}/healthz"
    return Part(
        name="nats",
        command=[str(find_binary("nats-server")), "--config", str(config)],
        variables=base,
        ready=healthy_at(health),
        address=f"{LOOPBACK}:{port}",
        metrics=f"{LOOPBACK}:{monitor}",
        health=health,
        ports=("nats", "nats-monitor"),
        # Reading back a large store takes minutes; killing it meanwhile would never end.
        ready_within=900.0,
        restart_when_unhealthy=True,
        # A stream that a full disk has frozen stays so until the next start. One that met it while it
        # started would serve the other streams for all that time, and heartbeats would be missing.
        hopeless="write error",
    )


def drop_torn_beats(store: Path) -> None:
    """Remove heartbeats that a loss of power has left without a description.

    They are the one stream that is not synced, and the server does not get ready with a stream that it
    cannot read. They are no facts: the stream is made anew, and the next beats fill it.
    """
    for folder in store.glob(f"jetstream/*/streams/{BEATS}"):
        if not _is_described(folder):
            log.warning("heartbeats lost with the power are removed: %s", folder)
            shutil.rmtree(folder)


def _is_described(folder: Path) -> bool:
    try:
        json.loads((folder / "meta.inf").read_bytes())
        return bool((folder / "meta.sum").read_bytes())
    except (OSError, ValueError):
        return False

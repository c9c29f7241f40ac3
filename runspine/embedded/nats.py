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
from runspine.embedded.part import StackPart, healthy_at
from runspine.embedded.ports import LOOPBACK, PortBook
from runspine.eventlog.subjects import BEATS

log = logging.getLogger("runspine.embedded")


def nats_part(home: Home, credentials: Credentials, ports: PortBook, base: dict[str, str]) -> StackPart:
    """The part `nats`; writes its configuration."""
    port, monitor = ports.choose("nats"), ports.choose("nats-monitor")
    config = home.nats / "nats.conf"
    store = home.nats / "store"
    remove_torn_beats(store)
    write_private(config, render(embedded_config(port, monitor, str(store), credentials.nats)))
    # Not ?js-enabled-only, which hides a stream that a full disk has frozen.
    health = f"http://{LOOPBACK}:{monitor}/healthz"
    return StackPart(
        name="nats",
        command=[str(find_binary("nats-server")), "--config", str(config)],
        variables=base,
        ready=healthy_at(health),
        address=f"{LOOPBACK}:{port}",
        metrics=f"{LOOPBACK}:{monitor}",
        health=health,
        ports=("nats", "nats-monitor"),
        # Recovery of a large store takes minutes; a kill would start it from the beginning.
        ready_within=900.0,
        restart_when_unhealthy=True,
        # A stream that a full disk has frozen stays so until the next start. If that happens during a start,
        # the server serves only the other streams, and heartbeats are missing.
        restart_on="write error",
    )


def remove_torn_beats(store: Path) -> None:
    """Remove the BEATS stream when a power loss has left it without metadata.

    It is the only stream that is not synced, and the server does not become ready with a stream that it
    cannot read. Heartbeats are not facts: the stream is created again, and the next heartbeats fill it.
    """
    for folder in store.glob(f"jetstream/*/streams/{BEATS}"):
        if not _has_metadata(folder):
            log.warning("heartbeats without metadata are removed: %s", folder)
            shutil.rmtree(folder)


def _has_metadata(folder: Path) -> bool:
    try:
        json.loads((folder / "meta.inf").read_bytes())
        return bool((folder / "meta.sum").read_bytes())
    except (OSError, ValueError):
        return False

"""What a trainer reports about itself: its configuration, its protocol, its run at a tracker. Pure."""

from __future__ import annotations

import json
from typing import Any

from runspine.domain import tracking
from runspine.services.worker.protocol.events import ConfigEvent, HelloEvent
from runspine.services.worker.protocol.version import PROTOCOL
from runspine.wire.v1.facts_pb2 import Tracking, TrainerDescribed

# Of the merged configuration; a larger one is kept in the telemetry only.
MAX_CONFIG_BYTES = 64 << 10
# Texts for TensorBoard repeat the arguments as a table.
_LEFT_OUT = ("type", "text")


class TrainerDescription:
    """Gathers it line by line."""

    def __init__(self) -> None:
        self._config: dict[str, Any] = {}
        self._described = TrainerDescribed()
        self._large = ""
        self._newer = ""
        self.tracking = Tracking()

    @property
    def described(self) -> TrainerDescribed:
        """What it reported so far, without the number of the attempt."""
        described = TrainerDescribed()
        described.CopyFrom(self._described)
        described.notice = "; ".join(part for part in (self._newer, self._large) if part)
        return described

    def add_hello(self, hello: HelloEvent) -> str:
        """Add a `hello` line; a line for the run's log when its protocol is not the one read here."""
        self._described.protocol, self._described.writer = hello.protocol, hello.writer
        if hello.protocol == PROTOCOL:
            self._newer = ""
            return ""
        before = self._newer
        self._newer = (
            f"the trainer writes protocol {hello.protocol} and this worker reads {PROTOCOL}: lines that "
            "it does not know are kept as log lines. Upgrade the worker, or use an SDK of its version"
        )
        return "" if before == self._newer else self._newer

    def add_config(self, event: ConfigEvent) -> None:
        """Merge a `config` line; its `args` one by one."""
        fields = json.loads(event.text)
        if isinstance(tracked := fields.get("wandb"), dict) and tracked.get("mode"):
            self.add_tracking(tracking.read_fields(tracked))
        new = {key: value for key, value in fields.items() if key not in _LEFT_OUT}
        both = {**self._config, **new}
        if isinstance(old := self._config.get("args"), dict) and isinstance(new.get("args"), dict):
            both["args"] = {**old, **new["args"]}
        text = json.dumps(both, sort_keys=True, separators=(",", ":"))
        if len(text) > MAX_CONFIG_BYTES:
            self._large = f"configuration beyond {MAX_CONFIG_BYTES >> 10} KiB is in its telemetry only"
            return
        self._config = both
        self._described.config_json = text if both else ""

    def add_tracking(self, new: Tracking | None) -> None:
        """Add what is new about its run at a tracker."""
        if new is not None:
            self.tracking = tracking.merged(self.tracking, new)

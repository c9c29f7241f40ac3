"""`--track` without a W&B account: a stand-in for `wandb` that keeps what it is told in the run.

The real package is used when the run has a key for it (`secrets: [WANDB_API_KEY]`), or says by WANDB_MODE
that nothing leaves the machine. Without either, `wandb.init` would end the run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from runspine.launcher.record import record, say
from runspine.launcher.standins import StandInFinder
from runspine.launcher.writers import number
from runspine.sdk.text import plain

LOCAL_MODES = ("offline", "disabled", "dryrun")


def is_allowed(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("WANDB_API_KEY")) or environment.get("WANDB_MODE") in LOCAL_MODES


def install() -> None:
    if not is_allowed(os.environ):
        sys.meta_path.insert(0, StandInFinder({"wandb": StandIn}))


class StandIn(ModuleType):
    """The part of `wandb` that training scripts use. Anything else is accepted and does nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.run: WandbRun | None = None
        self.config = Config()

    def init(self, **asked: Any) -> WandbRun:
        self.config.update(asked.get("config") or {})
        self.run = WandbRun(self, asked)
        kept = {key: value for key, value in asked.items() if key in ("project", "entity", "name", "group")}
        record.run.say_config({"wandb": plain({**kept, "config": dict(self.config)})})
        say("W&B is not contacted, because the run has no WANDB_API_KEY; what it would get is kept here")
        return self.run

    def log(self, values: Mapping[str, Any], step: Any = None, **_: Any) -> None:
        numbers = {name: value for name, value in flat(values) if is_number(value)}
        for name in numbers:
            record.scalar(name, step)
        if numbers:
            record.run.log(numbers, None if step is None else int(step))

    def finish(self, *_: Any, **__: Any) -> None:
        self.run = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Nothing()


class Config(dict[str, Any]):
    """Entries by key and by name."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def update(self, values: Any = (), /, **more: Any) -> None:
        more.pop("allow_val_change", None)
        given = values if isinstance(values, Mapping) or not hasattr(values, "__dict__") else vars(values)
        super().update(given, **more)


class WandbRun:
    """What `wandb.init` gives."""

    def __init__(self, module: StandIn, asked: Mapping[str, Any]) -> None:
        self._module = module
        self.config = module.config
        self.summary = Config()
        self.id = record.run.id or "local"
        self.name = str(asked.get("name") or self.id)
        self.project = str(asked.get("project") or "")
        self.entity = str(asked.get("entity") or "")
        self.dir = str(record.run.dir)
        self.url = ""

    def log(self, values: Mapping[str, Any], step: Any = None, **more: Any) -> None:
        self._module.log(values, step, **more)

    def finish(self, *_: Any, **__: Any) -> None:
        self._module.finish()

    def __enter__(self) -> WandbRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def __getattr__(self, name: str) -> Any:
        return Nothing()


class Nothing:
    """Can be called and asked for anything, and does nothing."""

    def __call__(self, *_: Any, **__: Any) -> Nothing:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Nested names joined by a slash, as W&B does by a dot, in our series' style."""
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        found += flat(value, f"{name}/") if isinstance(value, Mapping) else [(name, number(value))]
    return found


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (hasattr(value, "__float__") and not hasattr(value, "__len__"))

"""A stand-in for `wandb`, for `--track` without a W&B account: it records to the run.

The real package is used when the run has a key (`secrets: [WANDB_API_KEY]`), or when WANDB_MODE keeps
everything local. Without either, `wandb.init` would end the run.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from runspine.instrument.record import echo, record
from runspine.instrument.standins import StandInFinder
from runspine.instrument.writers import number
from runspine.sdk.encoding import plain

LOCAL_MODES = ("offline", "disabled", "dryrun")


def is_allowed(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("WANDB_API_KEY")) or environment.get("WANDB_MODE") in LOCAL_MODES


def install() -> None:
    if not is_allowed(os.environ):
        sys.meta_path.insert(0, StandInFinder({"wandb": StandIn}))


def patch(wandb: Any) -> None:
    """The real package: record the project, name and address of its run, which it prints only in part."""
    wandb.init = reporting(wandb.init)


def reporting(init: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(init)
    def begun(*args: Any, **kwargs: Any) -> Any:
        run = init(*args, **kwargs)
        found = {name: getattr(run, name, None) for name in ("project", "entity", "name", "id", "url")}
        mode = "offline" if getattr(run, "offline", False) else "online"
        if not getattr(run, "disabled", False):
            record.run.log_config({"wandb": plain({**found, "mode": mode})})
        return run

    return begun


class StandIn(ModuleType):
    """The part of `wandb` that training scripts use. Anything else is accepted and does nothing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.run: WandbStandIn | None = None
        self.config = WandbConfig()

    def init(self, **kwargs: Any) -> WandbStandIn:
        self.config.update(kwargs.get("config") or {})
        self.run = WandbStandIn(self, kwargs)
        kept = {key: value for key, value in kwargs.items() if key in ("project", "entity", "name", "group")}
        record.run.log_config({"wandb": plain({**kept, "config": dict(self.config)})})
        echo("W&B is not contacted, because the run has no WANDB_API_KEY; what it would get is kept here")
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
        return NullObject()


class WandbConfig(dict[str, Any]):
    """A dict whose entries are also attributes."""

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


class WandbStandIn:
    """The run that `wandb.init` returns."""

    def __init__(self, module: StandIn, kwargs: Mapping[str, Any]) -> None:
        self._module = module
        self.config = module.config
        self.summary = WandbConfig()
        self.id = record.run.id or "local"
        self.name = str(kwargs.get("name") or self.id)
        self.project = str(kwargs.get("project") or "")
        self.entity = str(kwargs.get("entity") or "")
        self.dir = str(record.run.dir)
        self.url = ""

    def log(self, values: Mapping[str, Any], step: Any = None, **more: Any) -> None:
        self._module.log(values, step, **more)

    def finish(self, *_: Any, **__: Any) -> None:
        self._module.finish()

    def __enter__(self) -> WandbStandIn:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def __getattr__(self, name: str) -> Any:
        return NullObject()


class NullObject:
    """Accepts every call and attribute, and does nothing."""

    def __call__(self, *_: Any, **__: Any) -> NullObject:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self


def flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, Any]]:
    """Flatten nested names with a slash, where W&B uses a dot."""
    found: list[tuple[str, Any]] = []
    for key, value in values.items():
        name = f"{prefix}{key}"
        found += flat(value, f"{name}/") if isinstance(value, Mapping) else [(name, number(value))]
    return found


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) or (hasattr(value, "__float__") and not hasattr(value, "__len__"))

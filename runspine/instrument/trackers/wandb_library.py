"""The real `wandb`: it works as ever, and what it gets is recorded as well."""

from __future__ import annotations

import atexit
import functools
from collections.abc import Callable
from typing import Any

from runspine.instrument.record import record
from runspine.instrument.trackers.calls import RECORD, after, attach, before
from runspine.instrument.trackers.values import remember
from runspine.instrument.trackers.wandb_run import WandbRecord
from runspine.sdk.encoding import plain

MEDIA = ("Image", "Video", "Histogram")


def patch(wandb: Any) -> None:
    """Record the address of each run, which the library prints only in part, and what it is given."""
    wandb.init = reporting(wandb.init)
    remember(wandb, MEDIA)
    run = wandb.sdk.wandb_run.Run
    run.log = before(run.log, _logged)
    run.define_metric = after(run.define_metric, _defined)
    run.log_artifact = after(run.log_artifact, _kept)
    run.save = after(run.save, _saved)
    run.alert = after(run.alert, _alerted)
    run.finish = before(run.finish, _finished)
    # Called with what is set at `config` and at `summary`.
    run._config_callback = after(run._config_callback, _configured)
    run._summary_update_callback = after(run._summary_update_callback, _summarized)


def reporting(init: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(init)
    def begun(*args: Any, **kwargs: Any) -> Any:
        run = init(*args, **kwargs)
        disabled = bool(getattr(run, "disabled", False))
        if not disabled and not record.stood_down:
            found = {name: getattr(run, name, None) for name in ("project", "entity", "name", "id", "url")}
            mode = "offline" if getattr(run, "offline", False) else "online"
            record.run.log_config({"wandb": plain({**found, "mode": mode})})
        if RECORD not in vars(run):
            kept = attach(run, WandbRecord(enabled=not disabled))
            kept.tracked.config(dict(run.config))
            atexit.register(kept.finish)
        return run

    return begun


def _logged(found: WandbRecord, data: Any, step: Any = None, commit: Any = None, **_: Any) -> None:
    found.log(data, step, commit)


def _defined(found: WandbRecord, name: str, step_metric: Any = None, **_: Any) -> None:
    found.steps.define(str(name), getattr(step_metric, "name", step_metric))


def _kept(found: WandbRecord, given: Any, name: Any = None, type: Any = None, **_: Any) -> None:
    found.artifact(given, name, type)


def _finished(found: WandbRecord, *_: Any, **__: Any) -> None:
    found.finish()


def _saved(found: WandbRecord, glob_str: Any = None, **_: Any) -> None:
    found.save(glob_str)


def _alerted(found: WandbRecord, title: str = "", text: str = "", **_: Any) -> None:
    found.tracked.note(f"alert: {title}: {text}")


def _configured(found: WandbRecord, key: Any = None, val: Any = None, data: Any = None) -> None:
    names = key if isinstance(key, (tuple, list)) else (key,)
    found.tracked.config(dict(data or {}) if key is None else {"/".join(map(str, names)): val})


def _summarized(found: WandbRecord, changed: Any) -> None:
    found.tracked.summary({"/".join(map(str, item.key)): item.value for item in changed.update})

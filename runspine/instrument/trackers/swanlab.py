"""`swanlab`: its stand-in, and the real one recorded as well."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from typing import Any

from runspine.instrument.record import record
from runspine.instrument.trackers import media
from runspine.instrument.trackers.attributes import ReportingDict, given_values
from runspine.instrument.trackers.calls import after, attach, before
from runspine.instrument.trackers.null import NullModule, NullObject
from runspine.instrument.trackers.step_record import StepRecord
from runspine.instrument.trackers.values import remember

ABOUT = ("project", "workspace", "name", "group", "job_type", "tags", "description")


class SwanlabStandIn(NullModule):
    """The part of `swanlab` that training scripts use. Anything else is accepted and does nothing."""

    def __init__(self, name: str = "swanlab") -> None:
        super().__init__(name)
        self.__version__ = "0.0.0+runspine"
        self.run: SwanlabStandInRun | None = None
        self.config = ReportingDict()
        for kind in (media.Image, media.Video, media.Text, media.Audio, media.Object3D, media.Html):
            setattr(self, kind.__name__, kind)

    def init(self, project: Any = None, **kwargs: Any) -> SwanlabStandInRun:
        name = kwargs.get("name") or kwargs.get("experiment_name")
        self.run = SwanlabStandInRun(self, {**kwargs, "project": project, "name": name})
        return self.run

    def login(self, *_: Any, **__: Any) -> bool:
        return True

    def get_run(self) -> SwanlabStandInRun | None:
        return self.run

    def has_run(self) -> bool:
        return self.run is not None

    def log(self, data: Mapping[str, Any], step: Any = None, *_: Any, **__: Any) -> None:
        self._begun.log(data, step)

    def log_image(self, *, key: str, data: Any, step: Any = None, **_: Any) -> None:
        self._begun.log({key: media.Image(data)}, step)

    def log_text(self, *, key: str, data: Any, step: Any = None, **_: Any) -> None:
        self._begun.log({key: media.Text(data)}, step)

    def save(self, glob_str: Any, *_: Any, **__: Any) -> None:
        _saved(self._begun.record, glob_str)

    def finish(self, *_: Any, **__: Any) -> None:
        self.run = None

    @property
    def _begun(self) -> SwanlabStandInRun:
        if self.run is None:
            raise RuntimeError("Call swanlab.init() before this call.")
        return self.run


class SwanlabStandInRun:
    """The run that `swanlab.init` returns."""

    def __init__(self, module: SwanlabStandIn, kwargs: Mapping[str, Any]) -> None:
        mode = kwargs.get("mode") or os.environ.get("SWANLAB_MODE", "")
        self.record = StepRecord("swanlab", enabled=mode != "disabled")
        self.id = self.name = str(kwargs.get("name") or record.run.id or "local")
        self.config = module.config = ReportingDict(self.record.tracked.config)
        self.record.tracked.about(**{key: kwargs.get(key) for key in ABOUT})
        self.config.update(given_values(kwargs.get("config")))
        self.record.tracked.note("the library is not used: what it would get is kept in this run")
        self._module = module

    def log(self, data: Mapping[str, Any], step: Any = None, *_: Any, **__: Any) -> None:
        self.record.log(data, step)

    def finish(self, *_: Any, **__: Any) -> None:
        if self._module.run is self:
            self._module.run = None

    def __enter__(self) -> SwanlabStandInRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._module, name) if name.startswith("log_") else NullObject()


def patch(swanlab: Any) -> None:
    """The library: what its runs get is recorded before they get it."""
    remember(swanlab, ("Image", "Video", "Text"))
    run, init = swanlab.Run, swanlab.init

    def begun(*args: Any, **kwargs: Any) -> Any:
        made = init(*args, **kwargs)
        mode = kwargs.get("mode") or os.environ.get("SWANLAB_MODE", "")
        if "_runspine_record" not in vars(made):
            found = attach(made, StepRecord("swanlab", enabled=mode != "disabled"))
            name = kwargs.get("name") or kwargs.get("experiment_name")
            found.tracked.about(**{key: {**kwargs, "name": name}.get(key) for key in ABOUT})
            found.tracked.config(given_values(kwargs.get("config")))
        return made

    begun.__wrapped__ = init  # type: ignore[attr-defined]
    swanlab.init = begun
    run.log = before(run.log, _logged)
    run.log_image = before(run.log_image, _log_image)
    run.log_text = before(run.log_text, _log_text)
    run.save = after(run.save, _saved)


def _logged(found: StepRecord, data: Mapping[str, Any], step: Any = None) -> None:
    found.log(data, step)


def _log_image(found: StepRecord, *, key: str, data: Any, step: Any = None, **_: Any) -> None:
    found.log({key: media.Image(data)}, step)


def _log_text(found: StepRecord, *, key: str, data: Any, step: Any = None, **_: Any) -> None:
    found.log({key: media.Text(data)}, step)


def _saved(found: StepRecord, glob_str: Any, *_: Any, **__: Any) -> None:
    for path in sorted(glob.glob(os.fspath(glob_str))):
        found.tracked.file(path)

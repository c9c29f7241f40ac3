"""`trackio`: its stand-in, and the real one recorded as well."""

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
from runspine.instrument.trackers.wandb_stand_in import Artifact

ABOUT = ("project", "name", "group", "space_id")


class TrackioStandIn(NullModule):
    """The part of `trackio` that training scripts use. Anything else is accepted and does nothing."""

    def __init__(self, name: str = "trackio") -> None:
        super().__init__(name)
        self.__version__ = "0.0.0+runspine"
        self.run: TrackioStandInRun | None = None
        self.config = ReportingDict()
        self.Image, self.Video, self.Table, self.Histogram = (
            media.Image,
            media.Video,
            media.Table,
            media.Histogram,
        )
        self.Audio, self.Artifact = media.Audio, Artifact

    def init(self, project: str = "", name: Any = None, *_: Any, **kwargs: Any) -> TrackioStandInRun:
        self.run = TrackioStandInRun(self, {**kwargs, "project": project, "name": name})
        return self.run

    def log(self, metrics: Mapping[str, Any], step: Any = None, **_: Any) -> None:
        self._begun.log(metrics, step)

    def log_artifact(self, given: Any, name: Any = None, type: Any = None, **_: Any) -> Any:
        return self._begun.log_artifact(given, name, type)

    def save(self, glob_str: Any, *_: Any, **__: Any) -> str:
        _save(self._begun.record, glob_str)
        return str(glob_str)

    def alert(self, title: str = "", text: Any = None, **_: Any) -> None:
        self._begun.alert(title, text)

    def finish(self) -> None:
        self.run = None

    @property
    def _begun(self) -> TrackioStandInRun:
        if self.run is None:
            raise RuntimeError("Call trackio.init() before this call.")
        return self.run


class TrackioStandInRun:
    """The run that `trackio.init` returns."""

    def __init__(self, module: TrackioStandIn, kwargs: Mapping[str, Any]) -> None:
        self.record = StepRecord("trackio")
        self.project = str(kwargs.get("project") or "")
        self.name = str(kwargs.get("name") or record.run.id or "local")
        self.id, self.url, self.group = self.name, "", kwargs.get("group")
        self.config = module.config = ReportingDict(self.record.tracked.config)
        self.record.tracked.about(**{key: kwargs.get(key) for key in ABOUT})
        self.config.update(given_values(kwargs.get("config")))
        self.record.tracked.note("the library is not used: what it would get is kept in this run")
        self._module = module

    def log(self, metrics: Mapping[str, Any], step: Any = None, **_: Any) -> None:
        self.record.log(metrics, step)

    def log_artifact(self, given: Any, name: Any = None, type: Any = None, **_: Any) -> Any:
        self.record.artifact(given, name, type)
        return given

    def alert(self, title: str = "", text: Any = None, **_: Any) -> None:
        self.record.tracked.note(f"alert: {title}: {text or ''}")

    def finish(self) -> None:
        if self._module.run is self:
            self._module.run = None

    def __enter__(self) -> TrackioStandInRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return NullObject()


def patch(module: Any) -> None:
    """`trackio.run` of the library."""
    run = module.Run
    init = run.__init__

    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        found = attach(self, StepRecord("trackio", start=int(getattr(self, "_next_step", 0))))
        found.tracked.about(project=getattr(self, "project", ""), name=getattr(self, "name", ""))
        found.tracked.config(_public(getattr(self, "config", None)))

    begun.__wrapped__ = init  # type: ignore[attr-defined]
    run.__init__ = begun
    run.log = before(run.log, _logged)
    run.log_artifact = after(run.log_artifact, _kept)
    run.alert = after(run.alert, _alerted)


def patch_media(trackio: Any) -> None:
    """`trackio` itself: its media, and `save`."""
    remember(trackio, ("Image", "Video", "Table", "Histogram"))
    save, current = trackio.save, trackio.context_vars.current_run

    def saving(glob_str: Any, *args: Any, **kwargs: Any) -> Any:
        result = save(glob_str, *args, **kwargs)
        found = vars(current.get() or NullObject()).get("_runspine_record")
        if found is not None:
            _save(found, glob_str)
        return result

    trackio.save = saving


def _logged(found: StepRecord, metrics: Mapping[str, Any], step: Any = None) -> None:
    found.log(metrics, step)


def _kept(found: StepRecord, given: Any, name: Any = None, type: Any = None, *_: Any, **__: Any) -> None:
    found.artifact(given, name, type)


def _alerted(found: StepRecord, title: str = "", text: Any = None, *_: Any, **__: Any) -> None:
    found.tracked.note(f"alert: {title}: {text or ''}")


def _save(found: StepRecord, pattern: Any) -> None:
    for path in sorted(glob.glob(os.fspath(pattern), recursive=True)):
        found.tracked.file(path)


def _public(config: Any) -> dict[str, Any]:
    return {key: value for key, value in given_values(config).items() if not key.startswith("_")}

"""`aim`: its stand-in, and the real one recorded as well."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspine.instrument.record import record
from runspine.instrument.trackers import media
from runspine.instrument.trackers.attributes import ReportingDict, given_values
from runspine.instrument.trackers.calls import after, attach, before
from runspine.instrument.trackers.null import NullModule, NullObject
from runspine.instrument.trackers.step_record import StepCounter
from runspine.instrument.trackers.tracked_run import TrackedRun, flat
from runspine.instrument.trackers.values import record_others, remember, split

# Written by the library itself at the start of a run.
_OWN = "__"


class AimRecord:
    """What one `aim.Run` began: each name in each context has steps of its own."""

    def __init__(self) -> None:
        self.tracked = TrackedRun("aim")
        self._steps: dict[str, StepCounter] = {}

    def track(self, value: Any, name: Any = None, step: Any = None, context: Any = None) -> None:
        if isinstance(value, Mapping):
            for key, each in value.items():
                self.track(each, f"{name}/{key}" if name else key, step, context)
            return
        where = series_name(str(name), context)
        at = self._steps.setdefault(where, StepCounter()).taken(step)
        numbers, others = split({where: value})
        self.tracked.scalars(numbers, at)
        record_others(self.tracked, others, at)

    def set(self, key: Any, value: Any) -> None:
        if not str(key).startswith(_OWN):
            self.tracked.config(flat(value, f"{key}/") if isinstance(value, Mapping) else {str(key): value})


def series_name(name: str, context: Any) -> str:
    """`loss/subset=train` for `loss` in the context `{"subset": "train"}`."""
    parts = sorted(f"{key}={value}" for key, value in flat(given_values(context)).items())
    return "/".join([name, *parts])


class AimStandIn(NullModule):
    """The part of `aim` that training scripts use. Anything else is accepted and does nothing."""

    def __init__(self, name: str = "aim") -> None:
        super().__init__(name)
        self.__version__ = "0.0.0+runspine"
        self.Run = AimStandInRun
        for kind in (media.Image, media.Text, media.Distribution, media.Audio):
            setattr(self, kind.__name__, kind)
        self.Figure = media.Image


class AimStandInRun:
    """`aim.Run`."""

    def __init__(self, *_: Any, experiment: Any = None, repo: Any = None, **__: Any) -> None:
        self._record = AimRecord()
        self._values = ReportingDict()
        self.hash, self.experiment, self.name = record.run.id or "local", experiment, record.run.id
        self._record.tracked.about(experiment=experiment)
        self._record.tracked.note("the library is not used: what it would get is kept in this run")

    def track(
        self, value: Any, name: Any = None, step: Any = None, epoch: Any = None, *, context: Any = None
    ) -> None:
        self._record.track(value, name, step, context)

    def __setitem__(self, key: str, value: Any) -> None:
        self._values[key] = value
        self._record.set(key, value)

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def set(self, key: str, value: Any, strict: bool = True) -> None:
        self[key] = value

    def get(self, key: str, default: Any = None, *_: Any, **__: Any) -> Any:
        return self._values.get(key, default)

    def log_artifact(self, path: Any, name: Any = None, **_: Any) -> None:
        self._record.tracked.file(path, str(name or ""))

    log_artifacts = log_artifact

    def close(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return NullObject()


def patch(module: Any) -> None:
    """`aim.sdk.run` of the library."""
    run = module.Run
    init = run.__init__

    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        found = attach(self, AimRecord())
        init(self, *args, **kwargs)
        found.tracked.about(experiment=kwargs.get("experiment"))

    begun.__wrapped__ = init  # type: ignore[attr-defined]
    run.__init__ = begun
    run.track = before(run.track, _tracked)
    run.__setitem__ = after(run.__setitem__, _set)
    run.log_artifact = after(run.log_artifact, _kept)
    run.log_artifacts = after(run.log_artifacts, _kept)


def patch_media(aim: Any) -> None:
    remember(aim, ("Image", "Text", "Distribution", "Figure"))


def _tracked(
    found: AimRecord,
    value: Any,
    name: Any = None,
    step: Any = None,
    epoch: Any = None,
    *,
    context: Any = None,
) -> None:
    found.track(value, name, step, context)


def _set(found: AimRecord, key: Any, value: Any) -> None:
    found.set(key, value)


def _kept(found: AimRecord, path: Any, name: Any = None, **_: Any) -> None:
    found.tracked.file(path, str(name or ""))

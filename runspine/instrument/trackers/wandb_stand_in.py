"""A stand-in for `wandb`: it records to the run, without an account or the package."""

from __future__ import annotations

import atexit
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runspine.instrument.record import record
from runspine.instrument.trackers import media
from runspine.instrument.trackers.attributes import ReportingDict, given_values
from runspine.instrument.trackers.null import NeedsLibraryError, NullModule, NullObject
from runspine.instrument.trackers.wandb_run import WandbRecord

REMOTE = ("Api", "use_artifact", "restore", "sweep", "agent", "controller")


class WandbStandIn(NullModule):
    """The part of `wandb` that training scripts use. Anything else is accepted and does nothing."""

    def __init__(self, name: str = "wandb") -> None:
        super().__init__(name)
        self.__version__ = "0.0.0+runspine"
        self.run: WandbStandInRun | None = None
        self.config = ReportingDict()
        self.summary = ReportingDict()
        for kind in (media.Image, media.Video, media.Table, media.Histogram, media.Html, media.Audio):
            setattr(self, kind.__name__, kind)
        self.Object3D, self.Artifact, self.Error = media.Object3D, Artifact, Exception
        for call in REMOTE:
            setattr(self, call, _needs(call))

    def init(self, *_: Any, **kwargs: Any) -> WandbStandInRun:
        if self.run is not None and not kwargs.get("reinit"):
            self.run.config.update(kwargs.get("config") or {})
            return self.run
        self.finish()
        self.run = WandbStandInRun(self, kwargs)
        return self.run

    def login(self, *_: Any, **__: Any) -> bool:
        return True

    def log(self, values: Mapping[str, Any], step: Any = None, commit: bool | None = None, **_: Any) -> None:
        self._begun.log(values, step, commit)

    def define_metric(self, name: str, step_metric: Any = None, **more: Any) -> NullObject:
        return self._begun.define_metric(name, step_metric, **more)

    def log_artifact(self, given: Any, name: Any = None, type: Any = None, **_: Any) -> Any:
        return self._begun.log_artifact(given, name, type)

    def save(self, glob_str: Any = None, *_: Any, **__: Any) -> bool:
        if self.run is not None:
            self.run.save(glob_str)
        return True

    def alert(self, title: str = "", text: str = "", **_: Any) -> None:
        self._begun.alert(title, text)

    def watch(self, *_: Any, **__: Any) -> None: ...

    def finish(self, *_: Any, **__: Any) -> None:
        if self.run is not None:
            run, self.run = self.run, None
            run.record.finish()

    @property
    def _begun(self) -> WandbStandInRun:
        if self.run is None:
            raise self.Error("You must call wandb.init() before this call")
        return self.run


class WandbStandInRun:
    """The run that `wandb.init` returns."""

    def __init__(self, module: WandbStandIn, kwargs: Mapping[str, Any]) -> None:
        self._module = module
        mode = kwargs.get("mode") or os.environ.get("WANDB_MODE", "")
        self.disabled = mode == "disabled"
        self.record = WandbRecord(enabled=not self.disabled)
        tracked = self.record.tracked
        self.config, self.summary = module.config, module.summary
        self.config.on_change(tracked.config)
        self.summary.on_change(tracked.summary)
        self.id = str(kwargs.get("id") or record.run.id or "local")
        self.name = str(kwargs.get("name") or self.id)
        self.project = str(kwargs.get("project") or os.environ.get("WANDB_PROJECT") or "")
        self.entity = str(kwargs.get("entity") or os.environ.get("WANDB_ENTITY") or "")
        self.group, self.tags = kwargs.get("group"), tuple(kwargs.get("tags") or ())
        self.notes, self.job_type = kwargs.get("notes"), kwargs.get("job_type")
        self.dir, self.url, self.offline, self.resumed = str(record.run.dir), "", True, False
        tracked.about(**{key: kwargs.get(key) for key in _ABOUT})
        self.config.update(given_values(kwargs.get("config")))
        tracked.note("the library is not used: what it would get is kept in this run")
        atexit.register(self.record.finish)

    @property
    def step(self) -> int:
        return self.record.rows.step

    def log(self, values: Mapping[str, Any], step: Any = None, commit: bool | None = None, **_: Any) -> None:
        self.record.log(values, step, commit)

    def define_metric(self, name: str, step_metric: Any = None, **_: Any) -> NullObject:
        self.record.steps.define(str(name), getattr(step_metric, "name", step_metric))
        return NullObject()

    def log_artifact(self, given: Any, name: Any = None, type: Any = None, **_: Any) -> Any:
        self.record.artifact(given, name, type)
        return given if isinstance(given, Artifact) else Artifact(str(name or given), str(type or ""))

    def log_model(self, path: Any, name: Any = None, **_: Any) -> None:
        self.record.artifact(path, name, "model")

    def save(self, glob_str: Any = None, *_: Any, **__: Any) -> bool:
        self.record.save(glob_str)
        return True

    def alert(self, title: str = "", text: str = "", **_: Any) -> None:
        self.record.tracked.note(f"alert: {title}: {text}")

    def finish(self, *_: Any, **__: Any) -> None:
        self._module.finish() if self._module.run is self else self.record.finish()

    def use_artifact(self, *_: Any, **__: Any) -> Any:
        raise NeedsLibraryError("wandb", "use_artifact")

    def __enter__(self) -> WandbStandInRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return NullObject()


class Artifact:
    """Files under a name."""

    def __init__(self, name: str, type: str = "", *_: Any, metadata: Any = None, **__: Any) -> None:
        self.name, self.type, self.metadata = name, type, dict(metadata or {})
        self.runspine_files: list[tuple[str, str]] = []

    def add_file(self, local_path: Any, name: Any = None, **_: Any) -> None:
        self.runspine_files.append((str(name or os.path.basename(local_path)), os.fspath(local_path)))

    def add_dir(self, local_path: Any, name: Any = None, **_: Any) -> None:
        folder = Path(local_path)
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            self.add_file(path, os.path.join(str(name or ""), str(path.relative_to(folder))))

    @contextmanager
    def new_file(self, name: str, mode: str = "w", **_: Any) -> Iterator[Any]:
        path = os.path.join(tempfile.mkdtemp(prefix="runspine-"), os.path.basename(name))
        with open(path, mode) as file:
            yield file
        self.add_file(path, name)

    def wait(self, *_: Any, **__: Any) -> Artifact:
        return self

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return NullObject()


def sb3_module(name: str) -> NullModule:
    """`wandb.integration.sb3`: its callback does what the program's own TensorBoard files do not."""
    from stable_baselines3.common.callbacks import BaseCallback

    class WandbCallback(BaseCallback):  # type: ignore[misc,unused-ignore]
        def __init__(
            self, verbose: int = 0, model_save_path: Any = None, model_save_freq: int = 0, **_: Any
        ) -> None:
            super().__init__(verbose)
            self.path, self.every = model_save_path, model_save_freq

        def _on_step(self) -> bool:
            if self.path and self.every and self.n_calls % self.every == 0:
                self._save()
            return True

        def _on_training_end(self) -> None:
            if self.path:
                self._save()

        def _save(self) -> None:
            os.makedirs(self.path, exist_ok=True)
            self.model.save(os.path.join(self.path, "model.zip"))

    module = NullModule(name)
    module.WandbCallback = WandbCallback  # type: ignore[attr-defined]
    return module


def _needs(call: str) -> Any:
    def refuse(*_: Any, **__: Any) -> Any:
        raise NeedsLibraryError("wandb", call)

    return refuse


_ABOUT = ("project", "entity", "name", "group", "job_type", "tags", "notes")

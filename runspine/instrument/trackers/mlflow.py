"""`mlflow`: its stand-in, and the real one recorded as well."""

from __future__ import annotations

import ast
import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from runspine.instrument.record import record
from runspine.instrument.trackers.null import NeedsLibraryError, NullModule, NullObject
from runspine.instrument.trackers.tracked_run import TrackedRun, is_number
from runspine.instrument.writers import number

REMOTE = ("search_runs", "get_run", "load_table", "search_experiments", "MlflowClient")
# Tags that the library sets itself.
_OWN = "mlflow."


class MlflowRecords:
    """Records by the id of the MLflow run that they are of."""

    def __init__(self) -> None:
        self._known: dict[str, TrackedRun] = {}

    def of(self, run_id: str) -> TrackedRun:
        if run_id not in self._known:
            self._known[run_id] = TrackedRun("mlflow")
        return self._known[run_id]


records = MlflowRecords()


def log_metrics(run_id: str, metrics: Mapping[str, Any], step: Any = None) -> None:
    """Without a step it is 0, as MLflow has it."""
    found = {str(key): number(value) for key, value in metrics.items()}
    numbers = {key: value for key, value in found.items() if is_number(value)}
    records.of(run_id).scalars(numbers, 0 if step is None else int(step))


class MlflowStandIn(NullModule):
    """The part of `mlflow` that training scripts use. Anything else is accepted and does nothing."""

    def __init__(self, name: str = "mlflow") -> None:
        super().__init__(name)
        self.__version__ = "0.0.0+runspine"
        self._runs: list[MlflowStandInRun] = []
        self._begun = 0
        for call in REMOTE:
            setattr(self, call, functools.partial(_refuse, call))

    def set_experiment(self, experiment_name: Any = None, **_: Any) -> NullObject:
        record.run.log_config({"mlflow": {"experiment": str(experiment_name or "")}})
        return NullObject()

    def start_run(self, run_id: Any = None, *_: Any, run_name: Any = None, **kwargs: Any) -> MlflowStandInRun:
        self._begun += 1
        made = MlflowStandInRun(self, str(run_id or f"{record.run.id or 'local'}-{self._begun}"))
        self._runs.append(made)
        found = records.of(made.info.run_id)
        found.about(run_name=run_name, tags=kwargs.get("tags"), description=kwargs.get("description"))
        found.note("the library is not used: what it would get is kept in this run")
        return made

    def active_run(self) -> MlflowStandInRun | None:
        return self._runs[-1] if self._runs else None

    def end_run(self, *_: Any, **__: Any) -> None:
        if self._runs:
            self._runs.pop()

    def log_metric(self, key: str, value: Any, step: Any = None, **_: Any) -> None:
        log_metrics(self._current, {key: value}, step)

    def log_metrics(self, metrics: Mapping[str, Any], step: Any = None, **_: Any) -> None:
        log_metrics(self._current, metrics, step)

    def log_param(self, key: str, value: Any, **_: Any) -> Any:
        log_params(self._current, {key: value})
        return value

    def log_params(self, params: Mapping[str, Any], **_: Any) -> None:
        log_params(self._current, params)

    def set_tag(self, key: str, value: Any, **_: Any) -> None:
        set_tags(self._current, {key: value})

    def set_tags(self, tags: Mapping[str, Any], **_: Any) -> None:
        set_tags(self._current, tags)

    def log_artifact(self, local_path: Any, artifact_path: Any = None, **_: Any) -> None:
        keep(self._current, local_path, artifact_path)

    def log_artifacts(self, local_dir: Any, artifact_path: Any = None, **_: Any) -> None:
        keep(self._current, local_dir, artifact_path)

    def log_text(self, text: str, artifact_file: str, **_: Any) -> None:
        self._written(artifact_file, lambda path: path.write_text(text, encoding="utf-8"))

    def log_dict(self, dictionary: Any, artifact_file: str, **_: Any) -> None:
        text = json.dumps(dictionary, indent=2, default=str)
        self._written(artifact_file, lambda path: path.write_text(text, encoding="utf-8"))

    def log_figure(self, figure: Any, artifact_file: str, **_: Any) -> None:
        self._written(artifact_file, figure.savefig)

    def log_image(
        self, image: Any, artifact_file: Any = None, key: Any = None, step: Any = None, **_: Any
    ) -> None:
        records.of(self._current).picture(str(key or artifact_file or "image"), image, step)

    def log_table(self, data: Any, artifact_file: str, **_: Any) -> None:
        named = data.to_dict("list") if hasattr(data, "to_dict") else dict(data)
        rows = [list(row) for row in zip(*named.values(), strict=True)]
        records.of(self._current).table(Path(artifact_file).stem, list(named), rows, None)

    def _written(self, name: str, write: Callable[[Path], Any]) -> None:
        folder = Path(tempfile.mkdtemp(prefix="runspine-"))
        path = folder / os.path.basename(name)
        write(path)
        records.of(self._current).file(path, name)

    @property
    def _current(self) -> str:
        """The run that is active; one begins with the first call."""
        return str((self.active_run() or self.start_run()).info.run_id)


class MlflowStandInRun:
    """The run that `mlflow.start_run` returns."""

    def __init__(self, module: MlflowStandIn, run_id: str) -> None:
        self._module = module
        self.info: Any = SimpleNamespace(run_id=run_id, run_name=run_id, experiment_id="0", artifact_uri="")
        self.data: Any = SimpleNamespace(metrics={}, params={}, tags={})

    def __enter__(self) -> MlflowStandInRun:
        return self

    def __exit__(self, *_: object) -> None:
        self._module.end_run()


def patch(module: Any) -> None:
    """`mlflow.tracking._tracking_service.client`: what every call of the library goes through."""
    client = module.TrackingServiceClient
    create = client.create_run

    @functools.wraps(create)
    def created(*args: Any, **kwargs: Any) -> Any:
        made = create(*args, **kwargs)
        _begun(made, kwargs.get("run_name"))
        return made

    client.create_run = created
    client.log_metric = _recorded(client.log_metric, _log_metric)
    client.log_batch = _recorded(client.log_batch, _log_batch)
    client.log_param = _recorded(client.log_param, _log_param)
    client.set_tag = _recorded(client.set_tag, lambda run_id, key, value: set_tags(run_id, {key: value}))
    client.log_artifact = _recorded(client.log_artifact, keep)
    client.log_artifacts = _recorded(client.log_artifacts, keep)


def _recorded(call: Callable[..., Any], then: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def called(self: Any, run_id: str, *args: Any, **kwargs: Any) -> Any:
        result = call(self, run_id, *args, **kwargs)
        kwargs.pop("synchronous", None)
        try:
            then(run_id, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - values of any kind; the program goes on
            records.of(run_id).note(f"{call.__name__}: {type(error).__name__}: {error}")
        return result

    return called


def _log_metric(
    run_id: str, key: str, value: Any, timestamp: Any = None, step: Any = None, *_: Any, **__: Any
) -> None:
    log_metrics(run_id, {key: value}, step)


def _log_batch(run_id: str, metrics: Any = (), params: Any = (), tags: Any = (), *_: Any) -> None:
    by_step: dict[int, dict[str, Any]] = {}
    for each in metrics:
        by_step.setdefault(each.step or 0, {})[each.key] = each.value
    for step, values in by_step.items():
        log_metrics(run_id, values, step)
    log_params(run_id, _pairs(params))
    set_tags(run_id, _pairs(tags))


def _pairs(entries: Iterable[Any]) -> dict[str, Any]:
    return {each.key: each.value for each in entries}


def _log_param(run_id: str, key: str, value: Any, *_: Any) -> None:
    log_params(run_id, {key: value})


def _begun(made: Any, name: Any) -> None:
    records.of(made.info.run_id).about(run_name=name)


def log_params(run_id: str, params: Mapping[str, Any]) -> None:
    """The library makes texts of all values: numbers are numbers again."""
    records.of(run_id).config({str(key): _literal(value) for key, value in params.items()})


def _literal(value: Any) -> Any:
    try:
        return ast.literal_eval(value) if isinstance(value, str) else value
    except (ValueError, SyntaxError):
        return value


def set_tags(run_id: str, tags: Mapping[str, Any]) -> None:
    records.of(run_id).about(
        **{str(key): str(value) for key, value in tags.items() if not str(key).startswith(_OWN)}
    )


def keep(run_id: str, path: Any, artifact_path: Any = None, *_: Any, **__: Any) -> None:
    name = os.path.basename(os.fspath(path).rstrip("/"))
    records.of(run_id).file(path, os.path.join(str(artifact_path), name) if artifact_path else name)


def _refuse(call: str, *_: Any, **__: Any) -> Any:
    raise NeedsLibraryError("mlflow", call)

"""Validation of a spec before it is submitted, and its defaults. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping

from google.protobuf.unknown_fields import UnknownFieldSet

from runspine.domain.defaults import (
    DEFAULT_EPISODES,
    DEFAULT_GRACE_SECONDS,
    DEFAULT_POOL,
    DEFAULT_PRIORITY,
    DEFAULT_SEED,
)
from runspine.domain.runner_abilities import can_warm_start, warm_start_subject
from runspine.errors import Violation
from runspine.eventlog.subjects import is_token
from runspine.instrument.trackers.choice import NOTHING, TRACKERS
from runspine.services.orchestrator.core.code_rules import code_violations
from runspine.services.orchestrator.core.dataset_rules import dataset_violations
from runspine.services.orchestrator.core.evaluation_rules import evaluation_violations
from runspine.services.orchestrator.core.fork_rules import fork_violations
from runspine.services.orchestrator.core.packages_rules import packages_violations
from runspine.services.orchestrator.core.play_rules import play_violations
from runspine.spec.command_template import missing_values
from runspine.spec.nearest import not_accepted
from runspine.wire.v1.runner_pb2 import (
    BOOLEAN,
    INTEGER,
    LIST,
    MAP,
    NUMBER,
    TEXT,
    Param,
    RunnerInfo,
)
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY, TRAIN, Mode, ObservationPolicy, RunSpec, Value

MAX_SPEC_BYTES = 256 << 10
MAX_TEXT = 200
MAX_LABELS = 64
MAX_NOTES = 20_000
MAX_GPUS = 1024
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_LABEL = re.compile(r"[A-Za-z0-9_./-]{1,63}\Z")
_SECRET = re.compile(r"(?i)(key|token|secret|passw(or)?d|credential)")
_TYPES = {BOOLEAN: "boolean", INTEGER: "integer", NUMBER: "number", TEXT: "text", LIST: "list", MAP: "map"}


def with_defaults(spec: RunSpec, runners: Mapping[str, RunnerInfo]) -> RunSpec:
    """The spec with every field that was left out filled in."""
    full = RunSpec()
    full.CopyFrom(spec)
    full.mode = full.mode or TRAIN
    full.pool = full.pool or DEFAULT_POOL
    full.seed = full.seed if spec.HasField("seed") else DEFAULT_SEED
    full.priority = full.priority if spec.HasField("priority") else DEFAULT_PRIORITY
    full.retry.max_attempts = full.retry.max_attempts or 1
    if not full.limits.HasField("grace_seconds"):
        full.limits.grace_seconds = DEFAULT_GRACE_SECONDS
    if full.mode == EVALUATE:
        full.evaluation.episodes = full.evaluation.episodes or DEFAULT_EPISODES
        full.evaluation.batches = full.evaluation.batches or 1
        return full
    if full.mode == PLAY:
        full.play.actor = full.play.actor or "human"
        full.algo = full.algo or "play"
        return full
    info = runners.get(full.runner)
    for param in _schema(full, info) if info else ():
        if param.name not in full.params and param.HasField("default"):
            full.params[param.name].CopyFrom(param.default)
    return full


def violations(spec: RunSpec, runners: Mapping[str, RunnerInfo]) -> list[Violation]:
    """Every field of a spec that is wrong."""
    size = spec.ByteSize()
    if size > MAX_SPEC_BYTES:
        return [
            Violation("spec", f"{size} bytes, more than the {MAX_SPEC_BYTES} accepted: keep data in files")
        ]
    return [
        *_unknown(spec),
        *_texts(spec),
        *_numbers(spec),
        *_warm_start(spec),
        *code_violations(spec, runners),
        *packages_violations(spec, runners),
        *evaluation_violations(spec),
        *play_violations(spec),
        *fork_violations(spec, runners),
        *dataset_violations(spec, runners),
        *_labels(spec),
        *_variables(spec),
        *_runner(spec, runners),
    ]


def _unknown(spec: RunSpec) -> Iterator[Violation]:
    inner = (
        "limits",
        "retry",
        "capture",
        "warm_start",
        "evaluation",
        "dataset",
        "play",
        "fork",
        "code",
        "isolation",
        "packages",
    )
    rules = ((rule, f"spec.notify[{index}]") for index, rule in enumerate(spec.notify))
    inside = ((getattr(spec, name), f"spec.{name}") for name in inner)
    for message, field in ((spec, "spec"), *inside, *rules):
        unknown = UnknownFieldSet(message)
        numbers = [str(unknown[index].field_number) for index in range(len(unknown))]
        if numbers:
            what = f"holds fields this server does not know (numbers {', '.join(numbers)}): update the server"
            yield Violation(field, what)


def _texts(spec: RunSpec) -> Iterator[Violation]:
    for field in ("name", "runner", "algo", "env", "project", "workdir"):
        text = getattr(spec, field)
        if _CONTROL.search(text):
            yield Violation(f"spec.{field}", f"{text!r} holds control characters: remove them")
        elif len(text) > MAX_TEXT and field != "workdir":
            yield Violation(f"spec.{field}", f"{len(text)} characters, more than the {MAX_TEXT} accepted")
    if spec.pool and not is_token(spec.pool):
        yield Violation("spec.pool", f"{spec.pool!r}: use letters, digits, - and _, at most 64 of them")
    if len(spec.notes) > MAX_NOTES:
        yield Violation("spec.notes", f"{len(spec.notes)} characters, more than the {MAX_NOTES} accepted")
    if spec.workdir and not spec.workdir.startswith("/"):
        yield Violation("spec.workdir", f"{spec.workdir!r} is relative: give the absolute path on the worker")
    if spec.isolation.network not in ("", "open", "none"):
        yield Violation("spec.isolation.network", f"{spec.isolation.network!r} is not one of: open, none")
    for index, word in enumerate(spec.command):
        if "\0" in word:
            yield Violation(f"spec.command[{index}]", "holds a NUL character: remove it")


def _numbers(spec: RunSpec) -> Iterator[Violation]:
    if spec.mode not in Mode.values():
        yield Violation("spec.mode", f"{spec.mode} is not one of: {_mode_names(Mode.values())}")
    if spec.priority > 100:
        yield Violation("spec.priority", f"{spec.priority} is out of range: 0 (last) to 100 (first)")
    if spec.seed > 2**63 - 1:
        yield Violation("spec.seed", f"{spec.seed} is out of range: 0 to 2^63-1")
    if spec.max_episodes and spec.mode in (EVALUATE, PLAY):
        field = "evaluation.episodes" if spec.mode == EVALUATE else "play.episodes"
        yield Violation("spec.max_episodes", f"is for trainings: use {field}")
    elif spec.max_episodes > 2**63 - 1:
        yield Violation("spec.max_episodes", f"{spec.max_episodes} is out of range: 0 to 2^63-1")
    if spec.retry.max_attempts > 100:
        yield Violation("spec.retry.max_attempts", f"{spec.retry.max_attempts} is out of range: 1 to 100")
    bounded = {
        "spec.retry.backoff_seconds": (spec.retry.backoff_seconds, 3600.0),
        "spec.limits.wall_seconds": (spec.limits.wall_seconds, 366 * 86400.0),
        "spec.limits.stall_seconds": (spec.limits.stall_seconds, 366 * 86400.0),
        "spec.limits.grace_seconds": (spec.limits.grace_seconds, 3600.0),
    }
    for field, (value, limit) in bounded.items():
        if not math.isfinite(value) or not 0 <= value <= limit:
            yield Violation(field, f"{value} is out of range: 0 to {limit:.0f} seconds")
    yield from _sizes(spec)
    if spec.capture.observations not in ObservationPolicy.values():
        what = f"{spec.capture.observations} is not one of: full, hash, none"
        yield Violation("spec.capture.observations", what)
    for name in spec.capture.mirror:
        if name not in (*TRACKERS, NOTHING):
            yield Violation("spec.capture.mirror", f"{name} is not one of: {', '.join((*TRACKERS, NOTHING))}")


def _sizes(spec: RunSpec) -> Iterator[Violation]:
    limits = spec.limits
    if limits.memory_mib and not 16 <= limits.memory_mib <= 1 << 30:
        what = f"{limits.memory_mib} is out of range: 16 MiB to 1 PiB, or 0 for no limit"
        yield Violation("spec.limits.memory_mib", what)
    if not math.isfinite(limits.cpus) or not (limits.cpus == 0 or 0.01 <= limits.cpus <= 4096):
        what = f"{limits.cpus} is out of range: 0.01 to 4096 cores, or 0 for no limit"
        yield Violation("spec.limits.cpus", what)
    if limits.processes > 4_000_000:
        yield Violation("spec.limits.processes", f"{limits.processes} is out of range: 1 to 4000000")
    if limits.disk_mib > 1 << 30:
        what = f"{limits.disk_mib} is out of range: 1 MiB to 1 PiB, or 0 for no limit"
        yield Violation("spec.limits.disk_mib", what)
    if spec.gpus > MAX_GPUS:
        yield Violation("spec.gpus", f"{spec.gpus} is out of range: 0 to {MAX_GPUS}")


def _warm_start(spec: RunSpec) -> Iterator[Violation]:
    if not spec.HasField("warm_start"):
        return
    wanted = spec.warm_start
    if _CONTROL.search(wanted.given) or len(wanted.given) > MAX_TEXT:
        yield Violation("spec.warm_start.given", "is filled in by the service: remove it")
    if wanted.digest and not _DIGEST.match(wanted.digest):
        what = f"{wanted.digest[:80]!r} is not a SHA-256: 64 characters 0-9 a-f, or empty for the newest"
        yield Violation("spec.warm_start.digest", what)


def _labels(spec: RunSpec) -> Iterator[Violation]:
    yield from label_violations(spec.labels, "spec.labels")


def label_violations(labels: Mapping[str, str], field: str) -> Iterator[Violation]:
    if len(labels) > MAX_LABELS:
        yield Violation(field, f"{len(labels)} labels, more than the {MAX_LABELS} accepted")
    for key, value in labels.items():
        if not _LABEL.match(key):
            what = f"{key!r}: a label's name has letters, digits, _ . / and -, at most 63 of them"
            yield Violation(field, what)
        elif _CONTROL.search(value) or len(value) > MAX_TEXT:
            yield Violation(f"{field}.{key}", f"at most {MAX_TEXT} characters and no control characters")


def _variables(spec: RunSpec) -> Iterator[Violation]:
    for name in [*spec.variables, *spec.secrets]:
        if not _VARIABLE.match(name):
            yield Violation("spec.variables", f"{name!r} is not a name for an environment variable")
        elif name.startswith("RUNSPINE_"):
            yield Violation("spec.variables", f"{name}: names with RUNSPINE_ are set by the worker")
    for name, value in spec.variables.items():
        if "\0" in value:
            yield Violation(f"spec.variables.{name}", "holds a NUL character: remove it")
        if _SECRET.search(name):
            what = (
                "looks like a secret, and the log keeps all: set it on the worker and name it under secrets"
            )
            yield Violation(f"spec.variables.{name}", what)


def _runner(spec: RunSpec, runners: Mapping[str, RunnerInfo]) -> Iterator[Violation]:
    if not spec.runner:
        yield Violation("spec.runner", f"is missing: one of {', '.join(sorted(runners))}")
        return
    info = runners.get(spec.runner)
    if info is None:
        yield Violation("spec.runner", not_accepted(spec.runner, runners))
        return
    if spec.mode == EVALUATE and EVALUATE in info.modes:
        return  # the checkpoint states its algorithm and env
    algos = {algo.name for algo in info.algos}
    if algos and spec.algo not in algos and spec.mode != PLAY:
        yield Violation("spec.algo", not_accepted(spec.algo, algos))
    if info.envs and not _known_env(spec, info):
        example = "CartPole-v1" if "CartPole-v1" in info.envs else info.envs[0]
        what = not_accepted(spec.env, info.envs) if spec.env else f"is missing: an env such as {example}"
        yield Violation("spec.env", what)
    if spec.mode and spec.mode not in info.modes:
        yield Violation(
            "spec.mode",
            f"runner {info.name} cannot {_mode_names([spec.mode])}; it can: {_mode_names(info.modes)}",
        )
    if info.takes_command and not spec.command:
        yield Violation(
            "spec.command", "is missing: the program and its arguments, such as [python, train.py]"
        )
    if info.takes_command:
        yield from (Violation("spec.command", str(missing)) for missing in missing_values(spec))
    if spec.command and not info.takes_command:
        yield Violation("spec.command", f"runner {info.name} makes its own command: remove it and use params")
    if spec.HasField("warm_start") and not can_warm_start(info, spec.algo):
        what = f"{warm_start_subject(info, spec.algo)} cannot begin with another run's checkpoint: remove it"
        yield Violation("spec.warm_start", what)
    if info.needs_gpu and not spec.gpus:
        yield Violation("spec.gpus", f"runner {info.name} needs a GPU: set gpus to 1 or more")
    if spec.mode != PLAY:
        yield from _params(spec, info)


def _known_env(spec: RunSpec, info: RunnerInfo) -> bool:
    # A module's envs are known once it is imported, and a path of the run's own may hold more of them.
    elsewhere = ":" in spec.env or "PYTHONPATH" in spec.variables
    return spec.env in info.envs or (info.open_envs and elsewhere)


def _params(spec: RunSpec, info: RunnerInfo) -> Iterator[Violation]:
    schema = {param.name: param for param in _schema(spec, info)}
    for name, value in spec.params.items():
        field = f"spec.params.{name}"
        if name in schema:
            yield from (Violation(field, what) for what in _param_problems(value, schema[name]))
        elif not info.open_params:
            yield Violation(field, not_accepted(name, schema))
    for param in schema.values():
        if param.required and param.name not in spec.params:
            yield Violation(f"spec.params.{param.name}", f"is missing: {param.help}")


def _param_problems(value: Value, param: Param) -> Iterator[str]:
    kind = value.WhichOneof("kind")
    given = getattr(value, kind) if kind else None
    accepted = {
        BOOLEAN: ("boolean",),
        INTEGER: ("integer",),
        NUMBER: ("number", "integer"),
        TEXT: ("text",),
        LIST: ("list",),
        MAP: ("map",),
    }[param.type]
    if kind not in accepted:
        yield f"{_shown(given)} is {_article(kind)}, but {_article(_TYPES[param.type])} is expected"
        return
    if kind in ("number", "integer"):
        if not math.isfinite(given):  # type: ignore[arg-type]
            yield f"{given} is not a finite number"
        elif param.HasField("minimum") and given < param.minimum:  # type: ignore[operator]
            yield f"{given} is out of range: at least {param.minimum:g}"
        elif param.HasField("maximum") and given > param.maximum:  # type: ignore[operator]
            yield f"{given} is out of range: at most {param.maximum:g}"
    if param.choices and str(given) not in param.choices:
        yield not_accepted(str(given), param.choices)


def _schema(spec: RunSpec, info: RunnerInfo) -> list[Param]:
    own = [param for algo in info.algos if algo.name == spec.algo for param in algo.params]
    return [*info.params, *own]


def _mode_names(modes: Iterable[int]) -> str:
    """Names of modes. A mode from the wire may be any number; an unknown one is shown as its number."""
    named = {number: name.lower() for name, number in Mode.items()}
    return ", ".join(named.get(mode, str(mode)) for mode in modes if mode)


def _article(kind: str | None) -> str:
    if kind is None:
        return "empty"
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}" if kind != "text" else "text"


def _shown(given: object) -> str:
    text = repr(given)
    return text if len(text) <= 60 else text[:57] + "…"

"""Names in a spec and what they stand for: the dataset and the source of a warm start. Pure.

A spec is stored with what was found, so that a name that moves later changes no run.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from runspine.datasets.fit import unfit_env
from runspine.domain.artifact_kinds import CHECKPOINT, DATASET
from runspine.domain.run.evolve import ENDED
from runspine.errors import Violation
from runspine.services.orchestrator.core.board import MIN_PREFIX, Board
from runspine.services.orchestrator.core.registry import MAX_SUGGESTED, Place, obstacle
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import plain_value
from runspine.wire.v1.run_pb2 import AttemptHistory, RegistryEntry, Run
from runspine.wire.v1.spec_pb2 import EVALUATE, PLAY, RunSpec

DATASETS_HINT = "`runspine datasets ls` lists them"
SOURCE_HINT = (
    f"give a run's id, at least {MIN_PREFIX} characters of its beginning, or its name, "
    "or an imported checkpoint or an alias"
)
MAX_SOURCE = 200


def has_references(spec: RunSpec) -> bool:
    """Whether a spec names anything that must be looked up."""
    return spec.mode not in (EVALUATE, PLAY) and (spec.HasField("dataset") or spec.HasField("warm_start"))


def resolve_references(given: RunSpec, board: Board) -> tuple[RunSpec, list[Violation]]:
    """The spec with names looked up, and every name that stands for nothing usable."""
    spec = RunSpec()
    spec.CopyFrom(given)
    if not has_references(spec):
        return spec, []
    return spec, [*_resolve_dataset(spec, board), *_resolve_warm_start(spec, board)]


def _resolve_dataset(spec: RunSpec, board: Board) -> Iterator[Violation]:
    wanted, registry = spec.dataset, board.registry
    text = wanted.digest or wanted.name
    if not spec.HasField("dataset") or not text:
        return
    field = "spec.dataset.digest" if wanted.digest else "spec.dataset.name"
    found = registry.datasets(text)
    if not found:
        if wanted.digest and (registry.partial or len(wanted.digest) != 64):
            return  # its form is checked elsewhere; it may be one that is not held here
        place = registry.alias(text)
        what = "is the alias of a checkpoint: " if place else ""
        yield Violation(
            field, f"{text[:80]!r} {what}{DATASETS_HINT}" if what else registry.dataset_not_found(text)
        )
        return
    if len(found) > 1:
        several = ", ".join(entry.digest[:16] for entry in found)
        yield Violation(field, f"{text!r} is the beginning of several digests: {several}: give more of it")
        return
    [entry] = found
    if why := obstacle(entry):
        yield Violation(field, f"dataset {text[:80]} {why}")
        return
    wanted.digest, wanted.size = entry.digest, entry.size
    yield from _match_env(spec, entry)


def _match_env(spec: RunSpec, entry: RegistryEntry) -> Iterator[Violation]:
    """Take env and env_kwargs of the dataset when the spec names no env; compare them otherwise."""
    if not entry.env:
        return
    if not spec.env:
        spec.env = entry.env
        for name, value in entry.env_kwargs.items():
            spec.env_kwargs[name].CopyFrom(value)
        return
    kwargs, own = (
        {name: plain_value(value) for name, value in each.items()}
        for each in (entry.env_kwargs, spec.env_kwargs)
    )
    name = spec.dataset.name or entry.digest[:12]
    if why := unfit_env(entry.env, kwargs, name, spec.env, own):
        yield Violation("spec.env", why)


def _resolve_warm_start(spec: RunSpec, board: Board) -> Iterator[Violation]:
    if not spec.HasField("warm_start"):
        return
    text, field = spec.warm_start.run_id, "spec.warm_start.run_id"
    if not text or len(text) > MAX_SOURCE:
        yield Violation(field, f"{text[:80]!r} names no run: {SOURCE_HINT}")
        return
    runs, place = board.find(text), board.registry.alias(text)
    imports = [] if runs else board.registry.imports(text)
    several = [run.id for run in runs] + [entry.run_id for entry in imports]
    if len(several) > 1:
        yield Violation(field, f"{text!r} is the beginning of several ids: {', '.join(several)}")
    elif runs:
        yield from _take_run(spec, runs[0], board.attempts.get(runs[0].id), text)
    elif imports:
        yield from _take_import(spec, imports[0], text)
    elif place is not None:
        yield from _take_alias(spec, place, board, text)
    else:
        yield Violation(field, _no_source(text, board))


def _take_run(spec: RunSpec, run: Run, history: AttemptHistory | None, text: str) -> Iterator[Violation]:
    wanted = spec.warm_start
    digests = {
        artifact.digest
        for attempt in (history.attempts if history is not None else ())
        for artifact in attempt.artifacts
        if artifact.kind == CHECKPOINT
    }
    _store(spec, run.id, text)
    wanted.ClearField("name")  # of imports alone
    if wanted.digest and wanted.digest not in digests:
        yield Violation(
            "spec.warm_start.digest",
            f"run {run.name} has no checkpoint {wanted.digest[:12]}: "
            f"`runspine checkpoints list {run.id}` lists them; leave it out for the newest",
        )
    elif not digests and run.phase in ENDED:
        yield Violation(
            "spec.warm_start.run_id",
            f"run {run.name} ({run.id}) has ended without a checkpoint: name another",
        )


def _take_import(spec: RunSpec, entry: RegistryEntry, text: str) -> Iterator[Violation]:
    wanted = spec.warm_start
    if entry.kind == DATASET:
        yield Violation(
            "spec.warm_start.run_id", f"{text[:80]!r} is a dataset: name it under dataset instead"
        )
    elif wanted.digest and wanted.digest != entry.digest:
        yield Violation(
            "spec.warm_start.digest",
            f"{entry.run_id} holds one checkpoint, {entry.digest}: leave the digest out",
        )
    elif why := obstacle(entry):
        yield Violation("spec.warm_start.run_id", f"imported checkpoint {text[:80]} {why}")
    else:
        wanted.digest, wanted.name = entry.digest, entry.name
        _store(spec, entry.run_id, text)


def _take_alias(spec: RunSpec, place: Place, board: Board, text: str) -> Iterator[Violation]:
    run_id, digest = place
    entry = board.registry.entry(place)
    if entry is not None:
        yield from _take_import(spec, entry, text)
        return
    spec.warm_start.digest = spec.warm_start.digest or digest
    run = board.runs.get(run_id)
    if run is None:
        yield Violation(
            "spec.warm_start.run_id", f"{text[:80]!r} is an alias of {run_id}, which is not known"
        )
    else:
        yield from _take_run(spec, run, board.attempts.get(run_id), text)


def _store(spec: RunSpec, run_id: str, text: str) -> None:
    if text != run_id:
        spec.warm_start.run_id, spec.warm_start.given = run_id, text


def _no_source(text: str, board: Board) -> str:
    recent = [board.runs[run_id].name for run_id in islice(reversed(board.ids), MAX_SUGGESTED)]
    known = [*board.registry.checkpoint_names(), *recent]
    near = not_accepted(text[:80], known, limit=0).partition("Did you mean ")[2]
    return f"there is no run or checkpoint {text[:80]!r}: " + (
        f"did you mean {near}" if near else SOURCE_HINT
    )

"""The JSON shapes of the client's API, each once: OpenAPI and the client's types are generated from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runspine.services.dashboard.core.runs.columns import Cell


@dataclass(slots=True)
class Problem:
    """The body of every answer that is no success."""

    error: str


@dataclass(slots=True)
class SessionShape:
    person: str
    scope: str
    # Whether buttons that change something are offered.
    may_run: bool
    # Whether there is a login at all.
    is_open: bool
    version: str


@dataclass(slots=True)
class ListedRun:
    id: str
    # Number of the run's newest change.
    version: int
    # In the order of the requested columns.
    cells: list[Cell]


@dataclass(slots=True)
class RunsPage:
    # Number of the newest change that the page takes into account; send it as `since` to get only newer rows.
    version: int
    # Of the process: numbers of another one mean nothing.
    epoch: str
    # Runs that the filter accepts, and all.
    total: int
    all: int
    columns: list[str]
    # Ids of the whole page in order.
    ids: list[str]
    # Rows that changed since `since`, all when it is 0.
    rows: list[ListedRun]


@dataclass(slots=True)
class ColumnShape:
    name: str
    label: str
    # text, number, time (milliseconds since 1970) or duration (seconds).
    kind: str
    # run, params or labels.
    group: str


@dataclass(slots=True)
class GroupShape:
    value: str
    runs: int
    active: int
    failed: int
    best: float | None
    mean: float | None


@dataclass(slots=True)
class GroupsShape:
    by: str
    groups: list[GroupShape]
    # Groups that were left out because there are too many.
    left_out: int


@dataclass(slots=True)
class IdsShape:
    total: int
    ids: list[str]


@dataclass(slots=True)
class ActionRequest:
    # cancel, label or priority.
    action: str
    runs: list[str]
    reason: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    priority: int = 50


@dataclass(slots=True)
class ActionProgress:
    """One line of the answer of an action; the last one has `finished`."""

    done: int
    of: int
    # What was refused since the line before: run id and reason.
    refused: list[list[str]]
    finished: bool


@dataclass(slots=True)
class AttemptShape:
    number: int
    worker: str
    host: str
    command: list[str]
    started: int
    ended: int
    outcome: str
    # The last lines of stderr, of an attempt that failed.
    stderr_tail: str
    versions: dict[str, str]
    # As the worker recorded it.
    provenance: dict[str, Any] | None


@dataclass(slots=True)
class RunShape:
    id: str
    version: int
    name: str
    state: str
    ended: bool
    reason: str
    env: str
    algo: str
    runner: str
    mode: str
    project: str
    owner: str
    worker: str
    seed: int
    attempt: int
    priority: int
    notes: str
    parent: str
    labels: dict[str, str]
    submitted_at: int
    started_at: int
    ended_at: int
    last_heartbeat_at: int
    step: int
    total: int
    episodes: int
    mean_return: float | None
    agent_returns: dict[str, float]
    evaluation: float | None
    steps_per_second: float | None
    held_back: str


@dataclass(slots=True)
class RunDetail:
    run: RunShape
    # The run file that would submit it again.
    spec_yaml: str
    # Every value of the spec by its path.
    spec: list[list[str]]
    attempts: list[AttemptShape]


@dataclass(slots=True)
class SeriesShape:
    name: str
    points: int
    first_step: int
    last_step: int
    minimum: float | None
    maximum: float | None
    last: float | None


@dataclass(slots=True)
class CurveShape:
    name: str
    # Number of this state of the curve; send it as `have` to get only newer states.
    number: int
    exact: bool
    points: int
    x: list[float | None]
    y: list[float | None]
    low: list[float | None]
    high: list[float | None]


@dataclass(slots=True)
class SparkShape:
    run: str
    values: list[float | None]


@dataclass(slots=True)
class LogLineShape:
    attempt: int
    number: int
    at: int
    # stdout, stderr, worker.
    source: str
    text: str


@dataclass(slots=True)
class AttemptLines:
    attempt: int
    lines: int


@dataclass(slots=True)
class LogRange:
    # Lines of each attempt.
    attempts: list[AttemptLines]
    lines: list[LogLineShape]


@dataclass(slots=True)
class LogHits:
    lines: list[LogLineShape]
    # Whether there may be more.
    more: bool


@dataclass(slots=True)
class EpisodeShape:
    index: int
    attempt: int
    episode: str
    value: float | None
    steps: int | None
    slot: int
    agent: str
    ended_at: int
    end: str


@dataclass(slots=True)
class EpisodesPage:
    total: int
    next: str
    episodes: list[EpisodeShape]


@dataclass(slots=True)
class FileShape:
    digest: str
    name: str
    kind: str
    size: int
    step: int
    produced_at: int
    integrity: str
    keeping: str
    pinned: bool
    # Where it is downloaded; empty when it cannot be.
    address: str


@dataclass(slots=True)
class FilesShape:
    total: int
    files: list[FileShape]
    # What retention rules keep, in words.
    retention: list[str]


@dataclass(slots=True)
class ComparedGroupShape:
    label: str
    runs: int
    final: float | None
    low: float | None
    high: float | None
    mean: float | None
    std: float | None
    area: float | None
    reached: float | None
    reached_count: int


@dataclass(slots=True)
class ComparedCurve:
    name: str
    points: int
    exact: bool
    x: list[float | None]
    y: list[float | None]
    low: list[float | None]
    high: list[float | None]


@dataclass(slots=True)
class ComparisonShape:
    axis: str
    statistic: str
    threshold: float | None
    advice: str
    groups: list[ComparedGroupShape]
    curves: list[ComparedCurve]


@dataclass(slots=True)
class DifferenceShape:
    runs: list[str]
    names: list[str]
    # Path, then the value of each run.
    rows: list[list[str]]

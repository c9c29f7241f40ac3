"""Follow runs to their end: progress bar on a terminal, lines elsewhere, JSON for scripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from runspine.cli.errors import FAILED, INTERRUPTED, OK
from runspine.cli.ui.curve import LiveCurve, draw_curve
from runspine.cli.ui.screen import console, echo, echo_json, has_ended, is_live, note, phase_word
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.facts import describe, elapsed, join_fitting, progress_parts, style_of
from runspine.text.values import clock, escaped, middle_cut
from runspine.wire.v1.facts_pb2 import Counts, Fact, Progress
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.trainer_pb2 import WatchResponse

# Between progress lines where no bar can be drawn.
PROGRESS_SECONDS = 5.0
# Lengths of the progress bar on wide and narrow terminals; columns taken by state and elapsed time.
BAR_WIDTH, SHORT_BAR_WIDTH, WIDE_TERMINAL_COLUMNS, STATE_WIDTH = 30, 10, 120, 22
_ENDS = ("run_completed", "run_failed", "run_cancelled")
# Facts of workers that are shown in addition to those of runs and artifacts.
_SHOWN_ATTEMPTS = ("artifact_given_up", "folders_removed", "tracking_reported")


def follow_runs(client: Client, runs: Sequence[Run], as_json: bool, parting: str = "") -> int:
    """Follow one run, or several as a group, and return an exit code."""
    if len(runs) > 1:
        return follow_group(client, runs, as_json, parting)
    return follow_run(client, runs[0], as_json, parting)


def follow_run(client: Client, run: Run, as_json: bool, parting: str = "") -> int:
    """Follow a run to its end and return an exit code. `parting` replaces the message on Ctrl-C."""
    last, curve = Run(), LiveCurve()
    last.CopyFrom(run)
    try:
        if as_json:
            _until_end(client, last, lambda message: echo_json(to_plain(message)), _note_wait)
        elif is_live(as_json):
            _draw(client, last, curve)
        else:
            _until_end(client, last, _LinePrinter(curve), _note_wait)
    except KeyboardInterrupt:
        note("\n" + (parting or f"detached; the run continues. Stop it with: runspine cancel {run.id}"))
        return INTERRUPTED
    if not as_json:
        for line in draw_curve(
            curve.points, title="return, mean of the last 20 episodes", width=console().width - 16
        ):
            echo(line)
        echo_end(last)
    return OK if last.phase == Phase.COMPLETED else FAILED


def follow_group(client: Client, runs: Sequence[Run], as_json: bool, parting: str = "") -> int:
    """Follow runs until all have ended; return 0 only when all completed."""
    waiting = {run.id: run.name for run in runs if not has_ended(run)}
    failed = sum(run.phase in (Phase.FAILED, Phase.CANCELLED) for run in runs)
    try:
        with _count_bar(len(runs), as_json) as advance:
            advance(len(runs) - len(waiting))
            start = max(0, min(run.position for run in runs) - 1)
            stream = client.watch(after=start, on_wait=_note_wait)
            while waiting:
                message = next(stream)
                if message.run_id not in waiting or not message.facts:
                    continue
                _echo_group(message, as_json)
                # Decided by the facts: the run state in the message may be older or newer than they are.
                ends = [kind for fact in message.facts if (kind := fact.WhichOneof("kind")) in _ENDS]
                if ends:
                    del waiting[message.run_id]
                    failed += ends[-1] != "run_completed"
                    advance(1)
    except KeyboardInterrupt:
        note(
            "\n" + (parting or f"detached; {len(waiting)} runs continue. Stop one with: runspine cancel RUN")
        )
        return INTERRUPTED
    if not as_json:
        echo(f"{len(runs) - failed} of {len(runs)} runs completed", "green" if not failed else "red")
    return FAILED if failed else OK


def feed(client: Client, as_json: bool) -> int:
    """Print every new fact of every run."""
    ends = _stream_ends(client)
    after = ends.pop(RUNS, 0)
    if not as_json:
        note("following all runs; Ctrl-C ends")
    try:
        for message in client.watch(after=after, more=ends, on_wait=_note_wait):
            if not _is_shown(message):
                continue
            if as_json:
                echo_json(to_plain(message))
                continue
            of = f"{message.run_id}  {middle_cut(escaped(message.run.name), 36)}"
            for fact in message.facts:
                echo_fact(fact, of if message.run_id else escaped(message.subject))
    except KeyboardInterrupt:
        return OK
    return OK


def _stream_ends(client: Client) -> dict[str, int]:
    """The position at which each stream ends now."""
    ends = {info.name: info.last_sequence for info in client.describe_log()}
    return {name: ends.get(name, 0) for name in (RUNS, ATTEMPTS, ARTIFACTS)}


def _is_shown(message: WatchResponse) -> bool:
    """Progress facts and the like of workers repeat what the run's own facts state."""
    kinds = {fact.WhichOneof("kind") for fact in message.facts}
    return message.stream != ATTEMPTS or bool(kinds.intersection(_SHOWN_ATTEMPTS))


def echo_fact(fact: Fact, of: str = "", margin: str = "") -> None:
    echo(margin + "  ".join(part for part in (clock(fact.at), of, describe(fact)) if part), style_of(fact))


def echo_end(run: Run) -> None:
    """Print how the run ended, and its warnings."""
    word = phase_word(run.phase)
    took = elapsed(run.started_at, run.ended_at, time.time())
    reason = f": {escaped(run.reason)}" if run.reason else ""
    style = {"completed": "green", "failed": "red"}.get(word, "yellow")
    echo(f"{run.id} {word} after {took}{reason}", style)
    for warning in warnings(run):
        echo(f"warning: {warning}", "yellow")


def warnings(run: Run) -> list[str]:
    """Conditions of a run that need attention."""
    found = []
    counts: Counts = run.counts
    if run.phase == Phase.COMPLETED and not (counts.steps or counts.episodes or counts.metrics):
        found.append("the run completed, but no step, episode or metric was captured")
    if counts.malformed:
        found.append(f"{counts.malformed:,} telemetry lines were malformed; see the logs")
    if counts.dropped:
        found.append(f"{counts.dropped:,} values could not be recorded; see the logs for the first ones")
    if counts.not_finite:
        found.append(f"{counts.not_finite:,} metrics are NaN or infinite; see the logs for the first ones")
    if run.losses:
        found.append(f"{run.losses} attempt{'s were' if run.losses > 1 else ' was'} lost with the worker")
    return found


def _until_end(
    client: Client, run: Run, on_message: Callable[[WatchResponse], None], on_wait: Callable[[float], None]
) -> None:
    """Pass every message to `on_message` and keep `run` up to date, until it has ended."""
    ends = _stream_ends(client)
    ends[RUNS] = max(0, run.position - 1)
    while True:
        more = {stream: position for stream, position in ends.items() if stream != RUNS}
        for message in client.watch(run.id, after=ends[RUNS], until_end=True, more=more, on_wait=on_wait):
            stream = message.stream or RUNS
            ends[stream] = max(ends[stream], message.position)
            if stream == RUNS and message.HasField("run"):
                run.CopyFrom(message.run)
            if _is_shown(message):
                on_message(message)
        run.CopyFrom(client.get(run.id).run)
        if has_ended(run):
            return
        time.sleep(0.5)  # the server closed the stream early, as it does when it shuts down


class _LinePrinter:
    """Prints facts as they arrive, and progress at most every few seconds."""

    def __init__(self, curve: LiveCurve) -> None:
        self.curve = curve
        self._printed_at = 0.0
        self._printed: list[str] = []

    def __call__(self, message: WatchResponse) -> None:
        _note_return(self.curve, message)
        for fact in message.facts:
            echo_fact(fact)
        words = progress_parts(message.progress) if message.HasField("progress") else []
        now = time.monotonic()
        if (
            words
            and words != self._printed
            and now - self._printed_at >= PROGRESS_SECONDS
            and not message.facts
        ):
            print(f"{time.strftime('%H:%M:%S')}      {', '.join(words)}", flush=True)
            self._printed, self._printed_at = words, now


def _note_wait(waited: float) -> None:
    note(f"orchestrator unreachable; waiting ({waited:.0f} s)")


def _echo_group(message: WatchResponse, as_json: bool) -> None:
    if as_json:
        echo_json(to_plain(message))
        return
    for fact in message.facts:
        echo_fact(fact, middle_cut(escaped(message.run.name), 36))


@contextmanager
def _count_bar(total: int, as_json: bool) -> Iterator[Callable[[int], object]]:
    if not is_live(as_json):
        yield lambda _: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

    bar = Progress(
        BarColumn(), MofNCompleteColumn(), "runs ended", TimeElapsedColumn(), console=console(stderr=True)
    )
    task = bar.add_task("", total=total)
    with bar:
        yield lambda count: bar.advance(task, count)


def _note_return(curve: LiveCurve, message: WatchResponse) -> None:
    if message.progress.HasField("mean_return"):
        curve.add(message.progress.step, message.progress.mean_return)


def _draw(client: Client, run: Run, curve: LiveCurve) -> None:
    """Draw a progress bar of the run; facts scroll by above it."""
    from rich import progress as rich_progress
    from rich.text import Text

    screen = console(stderr=True)
    length = BAR_WIDTH if screen.width >= WIDE_TERMINAL_COLUMNS else SHORT_BAR_WIDTH
    bar = rich_progress.Progress(
        rich_progress.TextColumn("{task.fields[state]}", markup=False),
        rich_progress.BarColumn(bar_width=length),
        rich_progress.TextColumn("{task.fields[words]}", markup=False),
        rich_progress.TextColumn("{task.fields[took]}", style="dim", markup=False),
        console=screen,
        refresh_per_second=8,
        transient=True,
    )
    task = bar.add_task("", total=run.spec.total_steps or None, state="", words="", took="")

    def show(message: WatchResponse) -> None:
        _note_return(curve, message)
        for fact in message.facts:
            bar.console.print(
                Text(f"{clock(fact.at)}  {describe(fact)}", style=style_of(fact)), soft_wrap=True
            )
        if message.HasField("progress"):
            _move(bar, task, message.progress, run, screen.width - length - STATE_WIDTH)
        bar.update(task, state=phase_word(run.phase))

    def wait(waited: float) -> None:
        bar.update(task, state=f"orchestrator unreachable, waiting {waited:.0f} s")

    with bar:
        bar.update(task, state=phase_word(run.phase))
        _until_end(client, run, show, wait)


def _move(bar: Any, task: Any, progress: Progress, run: Run, room: int) -> None:
    if has_ended(run) and not progress.step:
        return  # of an ended run only the counts may be known; the bar stays where it was
    total = progress.total_steps or run.spec.total_steps or None
    bar.update(
        task,
        completed=progress.step,
        total=total,
        words=join_fitting(progress_parts(progress), room),
        took=elapsed(run.started_at, run.ended_at, time.time()),
    )

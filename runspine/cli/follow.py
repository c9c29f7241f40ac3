"""Following runs to their end: a bar on a terminal, lines elsewhere, JSON for scripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from runspine.cli.curve import Curve, draw_curve
from runspine.cli.edge import FAILED, INTERRUPTED, OK
from runspine.cli.facts import describe, elapsed, fitting, progress_words, style_of
from runspine.cli.screen import console, has_ended, is_live, note, phase_word, say, say_json
from runspine.cli.text import clock, escaped, middle_cut
from runspine.client import Client
from runspine.plain import to_plain
from runspine.wire.v1.facts_pb2 import Counts, Fact, Progress
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.trainer_pb2 import WatchResponse

# Seconds between progress lines where no bar can be drawn.
QUIET = 5.0
# The bar where there is room, on a narrow terminal a short one; state and time beside the words.
BAR, SHORT_BAR, WIDE, BESIDE = 30, 10, 120, 22
_ENDS = ("run_completed", "run_failed", "run_cancelled")


def follow_run(client: Client, run: Run, as_json: bool, parting: str = "") -> int:
    """Until the run has ended; the exit code tells how. `parting` is said on Ctrl-C instead of the usual."""
    last, curve = Run(), Curve()
    last.CopyFrom(run)
    try:
        if as_json:
            _until_end(client, last, lambda message: say_json(to_plain(message)), _tell_wait)
        elif is_live(as_json):
            _draw(client, last, curve)
        else:
            _until_end(client, last, _LinePrinter(curve), _tell_wait)
    except KeyboardInterrupt:
        note("\n" + (parting or f"detached; the run goes on. Stop it with: runspine cancel {run.id}"))
        return INTERRUPTED
    if not as_json:
        for line in draw_curve(
            curve.points, title="return, mean of the last 20 episodes", width=console().width - 16
        ):
            say(line)
        say_end(last)
    return OK if last.phase == Phase.COMPLETED else FAILED


def follow_group(client: Client, runs: Sequence[Run], as_json: bool, parting: str = "") -> int:
    """Until all of them have ended; 0 only when all completed."""
    waiting = {run.id: run.name for run in runs if not has_ended(run)}
    failed = sum(run.phase in (Phase.FAILED, Phase.CANCELLED) for run in runs)
    try:
        with _count_bar(len(runs), as_json) as advance:
            advance(len(runs) - len(waiting))
            start = max(0, min(run.position for run in runs) - 1)
            stream = client.watch(after=start, on_wait=_tell_wait)
            while waiting:
                message = next(stream)
                if message.run_id not in waiting or not message.facts:
                    continue
                _tell_group(message, as_json)
                # Told by the facts: the run beside them may be older or newer than they are.
                ends = [kind for fact in message.facts if (kind := fact.WhichOneof("kind")) in _ENDS]
                if ends:
                    del waiting[message.run_id]
                    failed += ends[-1] != "run_completed"
                    advance(1)
    except KeyboardInterrupt:
        note("\n" + (parting or f"detached; {len(waiting)} runs go on. Stop one with: runspine cancel RUN"))
        return INTERRUPTED
    if not as_json:
        say(f"{len(runs) - failed} of {len(runs)} runs completed", "green" if not failed else "red")
    return FAILED if failed else OK


def feed(client: Client, as_json: bool) -> int:
    """Every fact of every run from now on."""
    after = next((info.last_sequence for info in client.describe_log() if info.name == "RUNS"), 0)
    if not as_json:
        note("following all runs; Ctrl-C ends")
    try:
        for message in client.watch(after=after, on_wait=_tell_wait):
            if as_json:
                say_json(to_plain(message))
                continue
            for fact in message.facts:
                say_fact(fact, f"{message.run_id}  {middle_cut(escaped(message.run.name), 36)}")
    except KeyboardInterrupt:
        return OK
    return OK


def say_fact(fact: Fact, of: str = "", margin: str = "") -> None:
    say(margin + "  ".join(part for part in (clock(fact.at), of, describe(fact)) if part), style_of(fact))


def say_end(run: Run) -> None:
    """How it ended, and a warning when it left nothing behind."""
    word = phase_word(run.phase)
    took = elapsed(run.started_at, run.ended_at, time.time())
    reason = f": {escaped(run.reason)}" if run.reason else ""
    style = {"completed": "green", "failed": "red"}.get(word, "yellow")
    say(f"{run.id} {word} after {took}{reason}", style)
    for warning in warnings(run):
        say(f"warning: {warning}", "yellow")


def warnings(run: Run) -> list[str]:
    """What should be seen although nobody asked."""
    found = []
    counts: Counts = run.counts
    if run.phase == Phase.COMPLETED and not (counts.steps or counts.episodes or counts.metrics):
        found.append("it ended well, but no step, episode or metric was captured: did it train nothing?")
    if counts.malformed:
        found.append(f"{counts.malformed:,} lines looked like telemetry but could not be read; see the logs")
    if run.losses:
        found.append(f"{run.losses} attempt{'s were' if run.losses > 1 else ' was'} lost with the worker")
    return found


def _until_end(
    client: Client, run: Run, on_message: Callable[[WatchResponse], None], on_wait: Callable[[float], None]
) -> None:
    """Feed every message to `on_message` and keep `run` at the newest state, until it has ended."""
    position = max(0, run.position - 1)
    while True:
        for message in client.watch(run.id, after=position, until_end=True, on_wait=on_wait):
            position = max(position, message.position)
            if message.HasField("run"):
                run.CopyFrom(message.run)
            on_message(message)
        run.CopyFrom(client.get(run.id).run)
        if has_ended(run):
            return
        time.sleep(0.5)  # the server closed the stream early, as it does when it shuts down


class _LinePrinter:
    """Facts as they come; progress at most every few seconds."""

    def __init__(self, curve: Curve) -> None:
        self.curve = curve
        self.told_at = 0.0
        self.told: list[str] = []

    def __call__(self, message: WatchResponse) -> None:
        _note_return(self.curve, message)
        for fact in message.facts:
            say_fact(fact)
        words = progress_words(message.progress) if message.HasField("progress") else []
        now = time.monotonic()
        if words and words != self.told and now - self.told_at >= QUIET and not message.facts:
            print(f"{time.strftime('%H:%M:%S')}      {', '.join(words)}", flush=True)
            self.told, self.told_at = words, now


def _tell_wait(waited: float) -> None:
    note(f"the orchestrator is away; waiting ({waited:.0f} s)")


def _tell_group(message: WatchResponse, as_json: bool) -> None:
    if as_json:
        say_json(to_plain(message))
        return
    for fact in message.facts:
        say_fact(fact, middle_cut(escaped(message.run.name), 36))


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


def _note_return(curve: Curve, message: WatchResponse) -> None:
    if message.progress.HasField("mean_return"):
        curve.add(message.progress.step, message.progress.mean_return)


def _draw(client: Client, run: Run, curve: Curve) -> None:
    """A bar that follows the run; facts scroll by above it."""
    from rich import progress as rich_progress
    from rich.text import Text

    screen = console(stderr=True)
    length = BAR if screen.width >= WIDE else SHORT_BAR
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
            _move(bar, task, message.progress, run, screen.width - length - BESIDE)
        bar.update(task, state=phase_word(run.phase))

    def wait(waited: float) -> None:
        bar.update(task, state=f"orchestrator away, waiting {waited:.0f} s")

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
        words=fitting(progress_words(progress), room),
        took=elapsed(run.started_at, run.ended_at, time.time()),
    )

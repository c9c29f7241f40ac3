"""Follow an evaluation: scores of batches as they arrive, then the overall result."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from runspine.cli.errors import FAILED, INTERRUPTED, OK
from runspine.cli.ui.follow import echo_end, echo_fact
from runspine.cli.ui.screen import console, echo, echo_json, has_ended, is_live, note, phase_word, table
from runspine.domain.evaluation import overall
from runspine.errors import RunspineError
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.facts import style_of
from runspine.text.values import number
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.telemetry_pb2 import Score, StreamRequest
from runspine.wire.v1.trainer_pb2 import WatchResponse

# Batches listed one by one in the result.
MAX_LISTED = 20


def scores_of(client: Client, run_id: str, *, follow: bool = False) -> Iterator[Score]:
    """Yield the scores of an evaluation; with `follow`, until the run has ended."""
    request = StreamRequest(run_id=run_id, follow=follow)
    for message in client.stream_telemetry("StreamEvaluations", request):
        request.after = max(request.after, message.position)
        yield from message.scores


def follow_evaluation(client: Client, run: Run, step: int, as_json: bool) -> int:
    """Follow the run to its end and return an exit code. Cancelling a repeating evaluation is success."""
    last = Run()
    last.CopyFrom(run)
    scores: list[Score] = []
    if not as_json:
        echo(f"{run.id}  {run.name}")
    try:
        with _display(run, as_json) as show:
            for item in _merged(client, run):
                if isinstance(item, Score):
                    scores.append(item)
                elif item.HasField("run"):
                    last.CopyFrom(item.run)
                show(item)
    except KeyboardInterrupt:
        note(f"\ndetached; the evaluation continues. Stop it with: runspine cancel {run.id}")
        return INTERRUPTED
    last.CopyFrom(client.get(run.id).run)
    if as_json:
        echo_json({"run": to_plain(last), "overall": overall(scores)})
    else:
        report(last, scores, step)
    good = last.phase == Phase.COMPLETED or (
        last.phase == Phase.CANCELLED and last.spec.evaluation.repeat and bool(scores)
    )
    return OK if good else FAILED


def _merged(client: Client, run: Run) -> Iterator[WatchResponse | Score]:
    """Yield facts of the run and scores in order of arrival."""
    items: queue.Queue[Any] = queue.Queue()

    def feed(source: Callable[[], Iterator[Any]]) -> None:
        try:
            for item in source():
                items.put(item)
        except RunspineError as error:
            items.put(error)
        finally:
            items.put(None)

    after = max(0, run.position - 1)
    sources: list[Callable[[], Iterator[Any]]] = [
        lambda: client.watch(run.id, after=after, until_end=True),
        lambda: scores_of(client, run.id, follow=True),
    ]
    for source in sources:
        threading.Thread(target=feed, args=(source,), daemon=True).start()
    left = len(sources)
    while left:
        item = items.get()
        if item is None:
            left -= 1
        elif isinstance(item, RunspineError):
            raise item
        else:
            yield item


@contextmanager
def _display(run: Run, as_json: bool) -> Iterator[Callable[[WatchResponse | Score], None]]:
    if as_json:
        yield lambda item: echo_json({"score": to_plain(item)}) if isinstance(item, Score) else None
        return
    if not is_live(as_json):
        yield _print
        return
    from rich import progress as rich_progress
    from rich.text import Text

    bar = rich_progress.Progress(
        rich_progress.TextColumn("{task.fields[state]}", markup=False),
        rich_progress.BarColumn(bar_width=30),
        rich_progress.TextColumn("{task.fields[words]}", markup=False),
        console=console(stderr=True),
        refresh_per_second=8,
        transient=True,
    )
    task = bar.add_task("", total=total_episodes(run) or None, state=phase_word(run.phase), words="")

    def show(item: WatchResponse | Score) -> None:
        if isinstance(item, Score):
            bar.console.print(Text(batch_text(item)), soft_wrap=True)
            return
        for fact in item.facts:
            if fact.WhichOneof("kind") in ("run_failed", "run_requeued", "run_went_stale"):
                bar.console.print(Text(fact.WhichOneof("kind"), style=style_of(fact)))
        if item.HasField("run"):
            bar.update(task, state=phase_word(item.run.phase))
        if item.HasField("progress"):
            bar.update(task, completed=item.progress.episodes, words=_words(run, item.progress))

    with bar:
        yield show


def _print(item: WatchResponse | Score) -> None:
    if isinstance(item, Score):
        echo(batch_text(item))
        return
    for fact in item.facts:
        echo_fact(fact)


def total_episodes(run: Run) -> int:
    """Total number of episodes; 0 when the evaluation repeats until cancelled."""
    wanted = run.spec.evaluation
    return 0 if wanted.repeat else wanted.episodes * (wanted.batches or 1)


def _words(run: Run, progress: Progress) -> str:
    of = f"/{total_episodes(run):,}" if total_episodes(run) else ""
    words = [f"{progress.episodes:,}{of} episodes"]
    if progress.HasField("mean_return"):
        words.append(f"return {number(progress.mean_return)}")
    return ", ".join(words)


def batch_text(score: Score) -> str:
    low, middle, high = number(score.minimum), number(score.median), number(score.maximum)
    return (
        f"batch {score.batch}: {number(score.mean)} ± {number(score.std, 3)}, {len(score.returns)} episodes "
        f"(min {low}, median {middle}, max {high}) in {score.seconds:.1f} s"
    )


def report(run: Run, scores: list[Score], step: int) -> None:
    """Print the result as a table."""
    spec = run.spec
    whole = overall(scores)
    if whole:
        how = "actions drawn" if spec.evaluation.stochastic else "best actions"
        echo()
        policy = f"{spec.algo} at step {step:,}" if step else spec.algo
        middle = (number(whole[name]) for name in ("minimum", "median", "maximum"))
        rows = [
            ("checkpoint", f"{spec.evaluation.digest[:12]}  {policy}"),
            ("env", f"{spec.env}, {how}, episodes from seed {spec.seed}"),
            ("return", f"{number(whole['mean'])} ± {number(whole['std'], 3)}"),
            ("mean, 95 %", "{} … {}".format(*(number(end) for end in whole["interval_95"]))),
            ("min · median · max", " · ".join(middle)),
            ("episodes", f"{whole['episodes']:,}, {number(whole['mean_length'] or 0)} steps on average"),
        ]
        width = max(len(name) for name, _ in rows)
        for name, value in rows:
            echo(f"{name.ljust(width)}  {value}")
        if 1 < len(scores) <= MAX_LISTED:
            echo()
            names = ["batch", "mean", "std", "min", "median", "max", "episodes", "seconds"]
            table(names, [_row(score) for score in scores], right=names)
        echo()
    if not has_ended(run):
        note("the run has not ended")
    echo_end(run)
    if whole:
        echo(f"compare with others: runspine leaderboard --env {spec.env}")


def _row(score: Score) -> list[str]:
    numbers = (score.mean, score.std, score.minimum, score.median, score.maximum)
    return [str(score.batch), *(number(n) for n in numbers), str(len(score.returns)), f"{score.seconds:.1f}"]

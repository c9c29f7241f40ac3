"""Following an evaluation to its end: batches as they come, then the whole."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from runspine.cli.edge import FAILED, INTERRUPTED, OK
from runspine.cli.facts import style_of
from runspine.cli.follow import say_end, say_fact
from runspine.cli.screen import console, has_ended, is_live, note, phase_word, say, say_json, table
from runspine.cli.text import number
from runspine.client import Client
from runspine.errors import RunspineError
from runspine.plain import to_plain
from runspine.scores import figures_of, interval_of
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.telemetry_pb2 import Score, StreamRequest
from runspine.wire.v1.trainer_pb2 import WatchResponse

# Batches that are listed one by one at the end.
LISTED = 20


def scores_of(client: Client, run_id: str, *, follow: bool = False) -> Iterator[Score]:
    """Batches of an evaluation; with `follow` until the run has ended."""
    request = StreamRequest(run_id=run_id, follow=follow)
    for message in client.stream_telemetry("StreamEvaluations", request):
        request.after = max(request.after, message.position)
        yield from message.scores


def follow_evaluation(client: Client, run: Run, step: int, as_json: bool) -> int:
    """Until the run has ended; the exit code tells how. Cancelling one that repeats is its good end."""
    last = Run()
    last.CopyFrom(run)
    scores: list[Score] = []
    if not as_json:
        say(f"{run.id}  {run.name}")
    try:
        with _display(run, as_json) as show:
            for item in _merged(client, run):
                if isinstance(item, Score):
                    scores.append(item)
                elif item.HasField("run"):
                    last.CopyFrom(item.run)
                show(item)
    except KeyboardInterrupt:
        note(f"\ndetached; the evaluation goes on. Stop it with: runspine cancel {run.id}")
        return INTERRUPTED
    last.CopyFrom(client.get(run.id).run)
    if as_json:
        say_json({"run": to_plain(last), "overall": overall(scores)})
    else:
        report(last, scores, step)
    good = last.phase == Phase.COMPLETED or (
        last.phase == Phase.CANCELLED and last.spec.evaluation.repeat and bool(scores)
    )
    return OK if good else FAILED


def _merged(client: Client, run: Run) -> Iterator[WatchResponse | Score]:
    """What happens to the run and what it scores, as either comes."""
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
        yield lambda item: say_json({"score": to_plain(item)}) if isinstance(item, Score) else None
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
    task = bar.add_task("", total=planned(run) or None, state=phase_word(run.phase), words="")

    def show(item: WatchResponse | Score) -> None:
        if isinstance(item, Score):
            bar.console.print(Text(batch_words(item)), soft_wrap=True)
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
        say(batch_words(item))
        return
    for fact in item.facts:
        say_fact(fact)


def planned(run: Run) -> int:
    """Episodes altogether; 0 when there is no end."""
    wanted = run.spec.evaluation
    return 0 if wanted.repeat else wanted.episodes * (wanted.batches or 1)


def _words(run: Run, progress: Progress) -> str:
    of = f"/{planned(run):,}" if planned(run) else ""
    words = [f"{progress.episodes:,}{of} episodes"]
    if progress.HasField("mean_return"):
        words.append(f"return {number(progress.mean_return)}")
    return ", ".join(words)


def batch_words(score: Score) -> str:
    low, middle, high = number(score.minimum), number(score.median), number(score.maximum)
    return (
        f"batch {score.batch}: {number(score.mean)} ± {number(score.std, 3)}, {len(score.returns)} episodes "
        f"(min {low}, median {middle}, max {high}) in {score.seconds:.1f} s"
    )


def overall(scores: list[Score]) -> dict[str, Any] | None:
    """All batches together; None when there is none."""
    returns = [value for score in scores for value in score.returns]
    if not returns:
        return None
    told, sure = figures_of(returns), interval_of(returns)
    lengths = [length for score in scores for length in score.lengths]
    return {
        **told._asdict(),
        "episodes": len(returns),
        "batches": len(scores),
        "interval_95": [sure.low, sure.high],
        "mean_length": sum(lengths) / len(lengths) if lengths else None,
        "seconds": sum(score.seconds for score in scores),
    }


def report(run: Run, scores: list[Score], step: int) -> None:
    """The result, for people."""
    spec = run.spec
    whole = overall(scores)
    if whole:
        how = "actions drawn" if spec.evaluation.stochastic else "best actions"
        say()
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
            say(f"{name.ljust(width)}  {value}")
        if 1 < len(scores) <= LISTED:
            say()
            names = ["batch", "mean", "std", "min", "median", "max", "episodes", "seconds"]
            table(names, [_row(score) for score in scores], right=names)
        say()
    if not has_ended(run):
        note("the run has not ended")
    say_end(run)
    if whole:
        say(f"compare with others: runspine leaderboard --env {spec.env}")


def _row(score: Score) -> list[str]:
    numbers = (score.mean, score.std, score.minimum, score.median, score.maximum)
    return [str(score.batch), *(number(n) for n in numbers), str(len(score.returns)), f"{score.seconds:.1f}"]

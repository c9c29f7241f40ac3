"""Display of a sweep: live table on a terminal, a line for each change elsewhere, JSON for scripts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from runspine.cli.ui.screen import Cell, console, drawable, echo, is_live, table
from runspine.sweep.plan import SweepPlan
from runspine.sweep.trials import Trial, TrialState, best_of
from runspine.text.values import escaped, middle_cut, number, short_ids, span

Varied = Mapping[int, Mapping[str, Any]]
STATE_STYLES = {
    TrialState.RUNNING: ("●", "blue"),
    TrialState.COMPLETED: ("✓", "green"),
    TrialState.PRUNED: ("⊘", "magenta"),
    TrialState.FAILED: ("✗", "red"),
}
MAX_ROWS = 15


def _values(plan: SweepPlan, trial: Trial, varied: Varied | None) -> Mapping[str, Any]:
    return plan.shown(trial.point) if varied is None else varied.get(trial.number, {})


def _short(path: str) -> str:
    return path.removeprefix("params.")


def _text(value: Any) -> str:
    if isinstance(value, float):
        return number(value)
    return middle_cut(str(value), 24)


def sweep_json(plan: SweepPlan, trials: Sequence[Trial], varied: Varied | None = None) -> dict[str, Any]:
    """The sweep as JSON."""
    best = best_of(plan, trials)
    rows = [
        {
            "trial": trial.number,
            "state": str(trial.state),
            "value": trial.value,
            "params": dict(_values(plan, trial, varied)),
            "runs": [run.id for run in trial.runs],
            "rungs": list(trial.rungs),
            "reason": trial.reason or None,
        }
        for trial in trials
    ]
    return {
        "sweep": plan.id,
        "metric": plan.metric,
        "direction": plan.direction,
        "wanted": plan.trials,
        "seeds": list(plan.seeds),
        "trials": rows,
        "best": rows[trials.index(best)] if best else None,
    }


def _ranked(plan: SweepPlan, trials: Sequence[Trial]) -> list[Trial]:
    """Trials by state and value, the best first."""
    sign = -1 if plan.direction == "maximize" else 1
    order = [TrialState.COMPLETED, TrialState.RUNNING, TrialState.PRUNED, TrialState.FAILED]
    return sorted(
        trials, key=lambda t: (order.index(t.state), t.value is None, sign * (t.value or 0.0), t.number)
    )


def _rows(
    plan: SweepPlan, trials: Sequence[Trial], varied: Varied | None, best: Trial | None
) -> tuple[list[str], list[list[Cell | str]], list[str]]:
    paths = list(dict.fromkeys(path for trial in trials for path in _values(plan, trial, varied)))
    short = short_ids(run.id for trial in trials for run in trial.runs)
    rows: list[list[Cell | str]] = []
    for trial in trials:
        values = _values(plan, trial, varied)
        symbol, style = STATE_STYLES[trial.state]
        mark = f" {drawable('★')}" if best is not None and trial.number == best.number else ""
        rows.append(
            [
                str(trial.number),
                Cell(f"{drawable(symbol)} {trial.state}", style),
                Cell(number(trial.value) + mark if trial.value is not None else "", "bold" if mark else ""),
                *(_text(values[path]) if path in values else "" for path in paths),
                " ".join(short[run.id] for run in trial.runs[:3]) + (" …" if len(trial.runs) > 3 else ""),
                middle_cut(escaped(_why(trial)), 70),
            ]
        )
    headings = ["TRIAL", "STATE", "VALUE", *(_short(path) for path in paths), "RUN", "WHY"]
    right = ["TRIAL", "VALUE", *(_short(path) for path in paths)]
    if not any(trial.reason for trial in trials):
        headings, rows = headings[:-1], [row[:-1] for row in rows]
    return headings, rows, right


def _why(trial: Trial) -> str:
    """The reason; for a pruned trial without the part that the table already shows."""
    if trial.state != TrialState.PRUNED:
        return trial.reason
    return trial.reason.partition(": ")[2]


def trial_table(plan: SweepPlan, trials: Sequence[Trial], varied: Varied | None = None) -> None:
    table(*_rows(plan, _ranked(plan, trials), varied, best_of(plan, trials)))


def echo_best(plan: SweepPlan, trials: Sequence[Trial], varied: Varied | None = None) -> None:
    """Print the best trial and the next commands."""
    best = best_of(plan, trials)
    echo()
    if best is None:
        echo(f"no trial of sweep {plan.id} completed yet", "yellow")
        return
    values = _values(plan, best, varied)
    over = f", mean of {len(best.runs)} seeds" if len(best.runs) > 1 else ""
    echo(f"best: trial {best.number} with {plan.metric} {number(best.value or 0.0)}{over}", "green")
    for path, value in values.items():
        echo(f"  {escaped(path)}: {escaped(str(value))}")
    run = best.runs[0].id
    echo("Next steps:")
    echo(f"  runspine resubmit {run} --set seed=7           train it again, with another seed or more steps")
    echo(f"  runspine compare --group sweep={plan.id} --by label.trial     curves of all trials")
    echo(f"  runspine sweep show {plan.id}     all trials, best first")


@contextmanager
def live_trials(plan: SweepPlan, as_json: bool) -> Iterator[Callable[[list[Trial]], None]]:
    """Yield a callback that displays the trials after each poll."""
    if as_json:
        yield lambda _: None
    elif not is_live(as_json):
        yield _Lines(plan)
    else:
        from rich.live import Live

        began, seen = time.monotonic(), _Lines(plan, quiet=True)
        with Live(console=console(stderr=True), refresh_per_second=4) as live:

            def show(trials: list[Trial]) -> None:
                seen(trials)
                live.update(_drawn(plan, trials, time.monotonic() - began), refresh=True)

            yield show


class _Lines:
    """Prints a line when a trial begins and when it ends."""

    def __init__(self, plan: SweepPlan, quiet: bool = False) -> None:
        self._plan = plan
        self._quiet = quiet
        self._printed: dict[int, TrialState] = {}

    def __call__(self, trials: list[Trial]) -> None:
        best = best_of(self._plan, trials)
        for trial in trials:
            if self._printed.get(trial.number) == trial.state:
                continue
            self._printed[trial.number] = trial.state
            if not self._quiet:
                echo(self._line(trial, trial is best))

    def _line(self, trial: Trial, is_best: bool) -> str:
        values = self._plan.shown(trial.point).items()
        where = "  ".join(f"{_short(path)}={_text(value)}" for path, value in values)
        value = f" {number(trial.value)}" if trial.value is not None else ""
        word = "began" if trial.state == TrialState.RUNNING else f"{trial.state}{value}"
        more = " (best so far)" if is_best else f": {trial.reason}" if trial.reason else ""
        return escaped(f"trial {trial.number} {word}{more}  {where}")


def _drawn(plan: SweepPlan, trials: list[Trial], seconds: float) -> Any:
    """Progress bar, counts, and the running and best trials."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    best = best_of(plan, trials)
    count = {state: sum(trial.state == state for trial in trials) for state in TrialState}
    ended = len(trials) - count[TrialState.RUNNING]
    words = [f"{ended}/{plan.trials} trials", f"{count[TrialState.RUNNING]} under way"]
    words += [f"{count[s]} {s}" for s in (TrialState.PRUNED, TrialState.FAILED) if count[s]]
    words += [f"best {number(best.value or 0.0)} (trial {best.number})"] if best else []
    head = Table.grid(padding=(0, 2))
    head.add_row(ProgressBar(plan.trials, ended, width=30), Text("  ".join([*words, span(seconds)])))
    under_way = [trial for trial in trials if trial.state == TrialState.RUNNING]
    rest = [trial for trial in _ranked(plan, trials) if trial.state != TrialState.RUNNING]
    shown = [*under_way, *rest][:MAX_ROWS]
    headings, rows, right = _rows(plan, shown, None, best)
    body = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    for heading in headings:
        body.add_column(heading, justify="right" if heading in right else "left", no_wrap=True)
    for row in rows:
        cells = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
        body.add_row(*(Text(escaped(cell.text), style=cell.style) for cell in cells))
    more = len(trials) - len(shown)
    tail = [Text(f"… and {more} more", style="dim")] if more > 0 else []
    return Group(head, body, *tail) if trials else head

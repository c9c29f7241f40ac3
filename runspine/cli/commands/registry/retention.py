"""`runspine retention`: show and set retention rules."""

from __future__ import annotations

import re
from typing import Any

import click

from runspine.cli.errors import json_option
from runspine.cli.listing_group import ListingGroup
from runspine.cli.lookup.run import run_id_of
from runspine.cli.ui.screen import echo, echo_json, note, table
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.artifacts import janitor_text, retained_parts, runs_with_text, undo_text
from runspine.text.values import escaped, middle_cut, short_ids, size, span, when
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.facts_pb2 import RetentionProfile

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\Z", re.IGNORECASE)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)\Z")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
NONE = "none"
MAX_SHOWN = 50


def _count(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """Parse a count, or `none` for no limit."""
    if value is None or value == NONE:
        return None if value is None else 0
    if not value.isdecimal() or not 0 < int(value) < 2**32:
        raise click.BadParameter(f"{value!r}: expected a number from 1 on, or none for no limit")
    return int(value)


def _size(_: click.Context, __: click.Parameter, value: str | None) -> int | None:
    """Parse a size such as 500MB or 2GiB, or `none`."""
    if value is None or value == NONE:
        return None if value is None else 0
    match = _SIZE.match(value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r}: expected a size such as 500MB or 2GiB, or none for no limit")
    factor = (1024 if match[3] else 1000) ** " kmgt".index(match[2].lower() or " ")
    return int(float(match[1]) * factor)


def _time(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    """Parse a duration such as 30d, 12h or 90m, or `none`."""
    if value is None or value in (NONE, "0"):
        return None if value is None else 0.0
    match = _SPAN.match(value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r}: expected a duration such as 30d, 12h or 90m, or none")
    return float(match[1]) * _SECONDS[match[2]]


@click.group(cls=ListingGroup)
def retention() -> None:
    """Show and set rules for which artifacts are kept, and for how long.

    Rules apply to all runs, to a project or to one run; for each limit the narrowest scope wins.
    """


def _scope_options(command: Any) -> Any:
    command = click.option("--project", default="", help="Rules of this project.")(command)
    return click.option("--run", default="", help="Rules of this run.")(command)


@retention.command("list")
@click.argument("run", required=False, default="")
@json_option
def list_(run: str, as_json: bool) -> None:
    """Show the rules, the artifacts they keep, and prunes that can be undone."""
    with Client() as client:
        found = ArtifactClient(client).retention(run=run)
    if as_json:
        echo_json(to_plain(found))
        return
    if not found.profiles:
        note(
            "no rules: everything is kept. Set one with, for example, `runspine retention set --max-videos 5`"
        )
    for each in found.profiles:
        words = ", ".join(profile_parts(each.profile))
        echo(f"{escaped(each.scope)}: {words}", "bold")
        echo(f"  set {when(each.set_at)}" + (f" by {escaped(each.set_by)}" if each.set_by else ""))
        for part in (runs_with_text(status) for status in found.runs_with if status.scope == each.scope):
            echo(f"  {part}")
    _echo_statuses(found)
    for batch in found.undoable:
        words = f"{batch.artifacts:,} artifacts, {size(batch.bytes)}"
        echo(f"pruned {when(batch.at)}: {words}")
        echo(f"  they {undo_text(batch.undo_until)}: runspine prune --undo {batch.batch}")
    note(janitor_text(found.janitor))


@retention.command("set")
@_scope_options
@click.option(
    "--max-videos", metavar="N|none", callback=_count, help="Maximum videos of a run; the newest are kept."
)
@click.option(
    "--max-checkpoints",
    metavar="N|none",
    callback=_count,
    help="Maximum checkpoints of a run, best and latest included.",
)
@click.option(
    "--max-runs",
    metavar="N|none",
    callback=_count,
    help="Maximum runs of an agent: label agent, else env and algorithm.",
)
@click.option(
    "--max-tensorboard-runs",
    metavar="N|none",
    callback=_count,
    help="Maximum runs of the scope with TensorBoard files; the newest keep theirs.",
)
@click.option(
    "--max-wandb-runs",
    metavar="N|none",
    callback=_count,
    help="Maximum runs of the scope with W&B files; the newest keep theirs.",
)
@click.option("--max-age", metavar="TIME|none", callback=_time, help="Maximum age of an artifact.")
@click.option(
    "--max-bytes", metavar="SIZE|none", callback=_size, help="Maximum size of all artifacts of the scope."
)
@click.option(
    "--grace", metavar="TIME|none", callback=_time, help="Younger artifacts are never pruned.  [default: 1h]"
)
@click.option(
    "--undo", metavar="TIME|none", callback=_time, help="How long a prune can be undone.  [default: 7d]"
)
@click.option("--automatic/--manual", default=None, help="Whether the janitor prunes automatically.")
@json_option
def set_(project: str, run: str, as_json: bool, **limits: Any) -> None:
    """Set rules. Limits that are not given stay unchanged; `none` removes a limit."""
    if all(value is None for value in limits.values()):
        raise click.UsageError("give a limit, such as --max-videos 5")
    with Client() as client:
        remote = ArtifactClient(client)
        scope = _scope(client, project, run)
        stored = remote.retention(scope=scope).profiles
        profile = RetentionProfile()
        if stored:
            profile.CopyFrom(stored[0].profile)
        for option, field in _FIELDS.items():
            if limits[option] is not None:
                setattr(profile, field, limits[option])
        answer = remote.set_retention(scope, profile)
    _echo_profile(answer, as_json)


@retention.command()
@_scope_options
@json_option
def unset(project: str, run: str, as_json: bool) -> None:
    """Remove the rules of a scope."""
    with Client() as client:
        answer = ArtifactClient(client).set_retention(_scope(client, project, run), RetentionProfile())
    _echo_profile(answer, as_json)


_FIELDS = {
    "max_videos": "max_videos_per_run",
    "max_checkpoints": "max_checkpoints_per_run",
    "max_runs": "max_runs_per_agent",
    "max_tensorboard_runs": "max_tensorboard_runs",
    "max_wandb_runs": "max_wandb_runs",
    "max_age": "max_age_seconds",
    "max_bytes": "max_bytes",
    "grace": "grace_seconds",
    "undo": "undo_seconds",
    "automatic": "automatic",
}


def profile_parts(profile: RetentionProfile) -> list[str]:
    """One phrase for each limit of a profile."""
    found = []
    for field, words in (
        ("max_videos_per_run", "videos a run"),
        ("max_checkpoints_per_run", "checkpoints a run"),
        ("max_runs_per_agent", "runs an agent"),
        ("max_tensorboard_runs", "runs with TensorBoard files"),
        ("max_wandb_runs", "runs with W&B files"),
    ):
        if profile.HasField(field):
            count = getattr(profile, field)
            found.append(f"at most {count:,} {words}" if count else f"any number of {words}")
    if profile.HasField("max_age_seconds"):
        found.append(
            f"at most {span(profile.max_age_seconds)} old" if profile.max_age_seconds else "of any age"
        )
    if profile.HasField("max_bytes"):
        found.append(f"at most {size(profile.max_bytes)}" if profile.max_bytes else "of any size")
    if profile.HasField("grace_seconds"):
        found.append(f"grace {span(profile.grace_seconds)}" if profile.grace_seconds else "no grace")
    if profile.HasField("undo_seconds"):
        found.append(f"undo {span(profile.undo_seconds)}" if profile.undo_seconds else "no undo")
    if profile.HasField("automatic"):
        found.append("pruned automatically" if profile.automatic else "pruned manually")
    return found


def _scope(client: Client, project: str, run: str) -> str:
    if project and run:
        raise click.UsageError("--project and --run are mutually exclusive")
    if run:
        return f"run:{run_id_of(client, run)}"
    return f"project:{project}" if project else "default"


def _echo_profile(answer: wire.ScopedProfile, as_json: bool) -> None:
    if as_json:
        echo_json(to_plain(answer))
        return
    words = ", ".join(profile_parts(answer.profile))
    echo(f"{escaped(answer.scope)}: {words or 'no rules of its own'}")
    note("`runspine prune --dry-run` shows what would be removed")


def _echo_statuses(found: wire.GetRetentionResponse) -> None:
    statuses = [status for status in found.statuses if status.kinds]
    short = short_ids(status.run_id for status in statuses)
    rows = [
        [
            short[status.run_id],
            middle_cut(status.run_name, 36),
            ", ".join(f"{part} retained" for part in retained_parts(status)),
            size(sum(kind.bytes for kind in status.kinds)),
            size(status.pruned_bytes) if status.pruned_bytes else "",
            when(status.last_pruned_at) if status.last_pruned_at else "",
        ]
        for status in statuses[:MAX_SHOWN]
    ]
    if rows:
        table(["RUN", "NAME", "STATUS", "SIZE", "PRUNED", "LAST PRUNE"], rows, right=("SIZE", "PRUNED"))
    if len(statuses) > MAX_SHOWN:
        note(f"{MAX_SHOWN} of {len(statuses):,} runs; `runspine retention RUN` shows one")

"""A click group that imports each of its commands on first use."""

from __future__ import annotations

import difflib
import importlib
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem


class CommandEntry(NamedTuple):
    """Import target of a command, `module:attribute`, and its one-line help."""

    target: str
    summary: str


class LazyGroup(click.Group):
    """Lists commands by section from a static table, so that --help imports none of them."""

    def __init__(self, *args: Any, sections: dict[str, dict[str, CommandEntry]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections
        self.entries = {name: entry for section in sections.values() for name, entry in section.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        return None if entry is None else _load(cmd_name, entry.target)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in self.entries and not name.startswith("-"):
            near = difflib.get_close_matches(name, self.entries, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else "`runspine --help` lists them."
            ctx.fail(f"No such command {name!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        width = max(map(len, self.entries))
        for title, section in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), entry.summary) for name, entry in section.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        found = [
            CompletionItem(name, help=entry.summary)
            for name, entry in self.entries.items()
            if name.startswith(incomplete)
        ]
        return found + click.Command.shell_complete(self, ctx, incomplete)


def _load(name: str, target: str) -> click.Command:
    module, _, attribute = target.partition(":")
    try:
        command = getattr(importlib.import_module(module), attribute)
    except ModuleNotFoundError as error:
        if error.name == module:
            raise click.UsageError(f"{name} is not part of this installation.") from error
        if (error.name or "").startswith("runspine"):
            raise
        raise click.UsageError(
            f"{name} needs the package {error.name}; install it with: pip install 'runspine[stack]'"
        ) from error
    assert isinstance(command, click.Command)
    return command

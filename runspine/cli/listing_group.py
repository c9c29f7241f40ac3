"""A click group with a default command: `artifacts RUN` is `artifacts list RUN`."""

from __future__ import annotations

import click


class ListingGroup(click.Group):
    """Runs the default command when the first argument names no command of the group."""

    default_command = "list"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = next((word for word in args if not word.startswith("-")), "")
        if named not in self.commands and not ({"-h", "--help"} & set(args) and not named):
            args = [self.default_command, *args]
        return super().parse_args(ctx, args)

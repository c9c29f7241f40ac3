"""A command group that does one of its commands when none is named: `artifacts RUN` lists."""

from __future__ import annotations

import click


class ListingGroup(click.Group):
    """`list`, or another usual command, when the first word is no command of the group."""

    usual = "list"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = next((word for word in args if not word.startswith("-")), "")
        if named not in self.commands and not ({"-h", "--help"} & set(args) and not named):
            args = [self.usual, *args]
        return super().parse_args(ctx, args)

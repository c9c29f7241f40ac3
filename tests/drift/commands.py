"""docs/reference/commands.md, from the commands themselves."""

from __future__ import annotations

import inspect
import re

import click

from runspine.cli import SECTIONS, cli


def commands_doc() -> str:
    lines = [
        "# Commands",
        "",
        "Every command with its options, generated from `runspine/cli` by `make proto`.",
        "What they share (where the stack is, `--json`, exit codes): [the command line](../cli.md).",
    ]
    root = click.Context(cli, info_name="runspine")
    for title, section in SECTIONS.items():
        lines += ["", f"## {title}"]
        for name in section:
            command = cli.get_command(root, name)
            assert command is not None
            lines += _command(click.Context(command, info_name=name, parent=root), depth=3)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def _command(ctx: click.Context, depth: int) -> list[str]:
    command = ctx.command
    usage = " ".join([ctx.command_path, *command.collect_usage_pieces(ctx)])
    lines = ["", f"{'#' * depth} {ctx.command_path}", "", "```text", usage, "```", ""]
    lines += _prose(command.help or "")
    lines += _options(ctx)
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            inner = command.get_command(ctx, name)
            assert inner is not None
            lines += _command(click.Context(inner, info_name=name, parent=ctx), depth + 1)
    return lines


def _prose(text: str) -> list[str]:
    """Paragraphs as they are; those of example commands as a block."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(text).replace("\b\n", "").split("\n\n"):
        if all(line.lstrip().startswith(("runspine ", "HF_TOKEN=")) for line in paragraph.splitlines()):
            lines += ["```sh", paragraph, "```", ""]
        else:
            lines += [_escaped(paragraph), ""]
    return lines


def _options(ctx: click.Context) -> list[str]:
    records = [
        record
        for option in ctx.command.params
        if isinstance(option, click.Option)
        if (record := option.get_help_record(ctx)) is not None
    ]
    if not records:
        return []
    rows = [f"| {_code(names)} | {_escaped(text)} |" for names, text in records]
    return ["| option | |", "|---|---|", *rows]


def _code(text: str) -> str:
    """As code in a table, where no way of writing | suits every reader of Markdown but this."""
    return f"<code>{text.replace('<', '&lt;').replace('|', '&#124;')}</code>" if "|" in text else f"`{text}`"


def _escaped(text: str) -> str:
    """Nothing in a help text is markup."""
    for mark in ("*", "_"):
        text = text.replace(mark, "\\" + mark)
    return text.replace("<", "&lt;").replace("|", "&#124;")

"""`runspine completion`: shell completion scripts."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from runspine.cli.errors import json_option
from runspine.cli.ui.screen import echo_json

_INSTALL = {
    "bash": "runspine completion bash > ~/.local/share/bash-completion/completions/runspine",
    "zsh": "runspine completion zsh > ~/.zfunc/_runspine  (with ~/.zfunc in fpath, before compinit)",
    "fish": "runspine completion fish > ~/.config/fish/completions/runspine.fish",
}


@click.command()
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@json_option
@click.pass_context
def completion(ctx: click.Context, shell: str, as_json: bool) -> None:
    """Print the completion script for a shell."""
    maker = get_completion_class(shell)
    assert maker is not None
    script = maker(ctx.find_root().command, {}, "runspine", "_RUNSPINE_COMPLETE")
    # `source()` would start the shell to read its version, which the template does not need.
    text = script.source_template % script.source_vars()
    # zsh reads the first line as a directive, so the comment comes last.
    text = f"{text.strip()}\n# To install: {_INSTALL[shell]}"
    if as_json:
        echo_json({"shell": shell, "script": text, "install": _INSTALL[shell]})
    else:
        print(text)

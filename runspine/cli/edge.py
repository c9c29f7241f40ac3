"""The edge of the command line: every error ends here as a message and an exit code."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from runspine.cli.text import escaped, escaped_block
from runspine.errors import Invalid, RunspineError

OK, FAILED, USAGE, UNREACHABLE, NOT_FOUND, REFUSED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130

EXIT_CODES = {
    "error": FAILED,
    "invalid": USAGE,
    "usage": USAGE,
    "unreachable": UNREACHABLE,
    "not_found": NOT_FOUND,
    "refused": REFUSED,
    "denied": REFUSED,
}

json_option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")


class Outcome(Exception):
    """Ends a command with an exit code after it has said all there is to say."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code."""
    as_json = "--json" in _before_dashes(arguments)
    try:
        result = command.main(list(arguments), prog_name="runspine", standalone_mode=False)
        # Output that is still buffered meets a closed pipe here rather than at exit.
        sys.stdout.flush()
        return result if isinstance(result, int) else OK
    except Outcome as outcome:
        return outcome.code
    except RunspineError as error:
        return report(error.kind, str(error), as_json, error)
    except click.UsageError as error:
        return _usage(error, as_json)
    except click.ClickException as error:
        report("error", error.format_message(), as_json)
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except OSError as error:
        if error.errno != errno.EPIPE:
            raise
        # Whoever read our output has left, as `head` does. Nothing more can be said.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def report(kind: str, message: str, as_json: bool, error: RunspineError | None = None) -> int:
    """Say what went wrong on stderr and return the exit code for it."""
    if as_json:
        told: dict[str, Any] = {"kind": kind, "message": message}
        if isinstance(error, Invalid):
            told["message"] = error.message
            told["fields"] = [
                {"field": v.field, "description": v.description, "where": v.where} for v in error.violations
            ]
        print(json.dumps({"error": told}, ensure_ascii=False), file=sys.stderr)
    else:
        print(f"error: {escaped_block(message)}", file=sys.stderr)
    return EXIT_CODES[kind]


def _usage(error: click.UsageError, as_json: bool) -> int:
    message = error.format_message()
    if as_json:
        return report("usage", message, True)
    if error.ctx is not None:
        print(error.ctx.get_usage(), file=sys.stderr)
        print(f"Try: {error.ctx.command_path} --help\n", file=sys.stderr)
    print(f"error: {escaped(message)}", file=sys.stderr)
    return USAGE


def _before_dashes(arguments: Sequence[str]) -> Sequence[str]:
    return arguments[: list(arguments).index("--")] if "--" in arguments else arguments

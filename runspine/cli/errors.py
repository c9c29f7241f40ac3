"""Error boundary of the command line: turns exceptions into messages and exit codes."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from runspine.errors import InvalidError, RunspineError
from runspine.text.values import escaped, escaped_block

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


class ExitCodeError(Exception):
    """Ends a command with an exit code; the command has already printed its output."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def run(command: click.Command, arguments: Sequence[str]) -> int:
    """Run a command line and return its exit code."""
    as_json = "--json" in _before_dashes(arguments)
    try:
        result = command.main(list(arguments), prog_name="runspine", standalone_mode=False)
        # Flush here, so that a closed pipe raises now and not at interpreter exit.
        sys.stdout.flush()
        return result if isinstance(result, int) else OK
    except ExitCodeError as outcome:
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
        # The reader of stdout has closed the pipe, as `head` does.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED


def report(kind: str, message: str, as_json: bool, error: RunspineError | None = None) -> int:
    """Print an error on stderr and return its exit code."""
    if as_json:
        details: dict[str, Any] = {"kind": kind, "message": message}
        if isinstance(error, InvalidError):
            details["message"] = error.message
            details["fields"] = [
                {"field": v.field, "description": v.message, "where": v.where} for v in error.violations
            ]
        print(json.dumps({"error": details}, ensure_ascii=False), file=sys.stderr)
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

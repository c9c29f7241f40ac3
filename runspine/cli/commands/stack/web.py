"""`runspine web`: open the web page of the local stack, logged in."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import quote

import click

from runspine.cli.commands.stack.stack import home_option
from runspine.cli.errors import UNREACHABLE, json_option

# A redirect page keeps the token off the browser's command line, which other users can read.
REDIRECT_PAGE = """<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={url}">
<a href="{url}">Runspine</a>
"""


@click.command()
@click.argument("run", required=False)
@home_option
@click.option(
    "--open/--no-open", "opens", default=None, help="Open a browser.  [default: if a display is available]"
)
@json_option
def web(run: str | None, home: Path, opens: bool | None, as_json: bool) -> int:
    """Print and open the address of the web page, logged in; with RUN, the page of that run.

    The token is in the URL fragment, which a browser does not send.
    """
    from runspine.cli.ui.screen import echo, echo_json, note
    from runspine.embedded.credentials import load_credentials
    from runspine.embedded.home import Home
    from runspine.embedded.record import running_record

    place = Home.at(home)
    record = running_record(place)
    address = record.addresses.get("dashboard", "") if record else ""
    if not address:
        why = "has no web page: pip install 'runspine[dashboard]'" if record else "does not run: runspine up"
        return _fail(f"the stack in {place.path} {why}", as_json)
    token = os.environ.get("RUNSPINE_TOKEN") or load_credentials(place).token
    to = f"?to={quote(f'/run/{run}', safe='/')}" if run else ""
    url = f"http://{address}/login{to}#{quote(token, safe='')}"
    if as_json:
        echo_json({"url": url, "address": f"http://{address}"})
        return 0
    echo(url)
    if opens or (opens is None and sys.stdout.isatty() and _has_screen()):
        _open(place.path, url)
    else:
        note("open it in a browser; the link grants all rights of its token")
    return 0


def _open(home: Path, url: str) -> None:
    import webbrowser

    from runspine.embedded.home import write_private

    redirect = home / "open-page.html"
    write_private(redirect, REDIRECT_PAGE.format(url=url))
    webbrowser.open(redirect.as_uri())


def _has_screen() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _fail(message: str, as_json: bool) -> int:
    from runspine.cli.errors import report

    report("unreachable", message, as_json)
    return UNREACHABLE

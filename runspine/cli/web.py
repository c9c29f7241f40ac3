"""`runspine web`: the web page of the stack on this machine, opened with its token."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from urllib.parse import quote

import click

from runspine.cli.edge import UNREACHABLE, json_option
from runspine.cli.stack import home_option

# The token must not stand on a browser's command line, where other users of the machine can read it.
DOOR = """<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url={url}">
<a href="{url}">Runspine</a>
"""


@click.command()
@click.argument("run", required=False)
@home_option
@click.option("--open/--no-open", "opens", default=None, help="Open a browser [default: if there is one].")
@json_option
def web(run: str | None, home: Path, opens: bool | None, as_json: bool) -> int:
    """Print and open the address of the web page, logged in; with RUN, that run's page.

    The token stands behind the #, which a browser keeps to itself.
    """
    from runspine.cli.screen import note, say, say_json
    from runspine.embedded.credentials import load_credentials
    from runspine.embedded.home import Home
    from runspine.embedded.record import running_record

    place = Home.at(home)
    record = running_record(place)
    address = record.addresses.get("dashboard", "") if record else ""
    if not address:
        why = "has no web page: pip install 'runspine[dashboard]'" if record else "does not run: runspine up"
        return _nothing(f"the stack in {place.path} {why}", as_json)
    token = os.environ.get("RUNSPINE_TOKEN") or load_credentials(place).token
    to = f"?to={quote(f'/run/{run}', safe='/')}" if run else ""
    url = f"http://{address}/login{to}#{quote(token, safe='')}"
    if as_json:
        say_json({"url": url, "address": f"http://{address}"})
        return 0
    say(url)
    if opens or (opens is None and sys.stdout.isatty() and _has_screen()):
        _open(place.path, url)
    else:
        note("open it in a browser; whoever has this link may do all that its token may")
    return 0


def _open(home: Path, url: str) -> None:
    import webbrowser

    from runspine.embedded.home import write_private

    door = home / "open-page.html"
    write_private(door, DOOR.format(url=url))
    webbrowser.open(door.as_uri())


def _has_screen() -> bool:
    return sys.platform == "darwin" or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _nothing(message: str, as_json: bool) -> int:
    from runspine.cli.edge import report

    report("unreachable", message, as_json)
    return UNREACHABLE

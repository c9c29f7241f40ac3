"""`runspine hosts`: invite, list, drain and remove machines of a stack."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from pathlib import Path

import click

from runspine.cli.commands.stack.secrets import ExpiryType
from runspine.cli.commands.stack.stack import home_option
from runspine.cli.errors import FAILED, OK, json_option
from runspine.text.values import age, escaped


class HostNameType(click.ParamType):  # type: ignore[type-arg] # not generic at run time
    """The name of a host, which is the id of its worker."""

    name = "name"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,64}", str(value)):
            self.fail(f"{value!r}: use letters, digits, - and _ (at most 64)")
        return str(value)


HOST = HostNameType()
expires_option = click.option(
    "--expires", type=ExpiryType(), default="1h", show_default=True, help="How long the invitation is good."
)
pools_option = click.option(
    "--pools", default="default", show_default=True, help="Pools that its worker serves."
)
slots_option = click.option(
    "--slots", type=click.IntRange(1, 1024), help="Runs at the same time.  [default: cores]"
)


@click.group()
def hosts() -> None:
    """Invite, list, drain and remove other machines of an embedded stack."""


@hosts.command()
@click.argument("name", type=HOST)
@home_option
@expires_option
@pools_option
@slots_option
@json_option
def invite(name: str, home: Path, expires: float, pools: str, slots: int | None, as_json: bool) -> int:
    """Print the line to enter on machine NAME. It is good once."""
    from runspine.cli.ui.screen import echo, echo_json

    line = _invitation(home, name, expires, pools, slots)
    if as_json:
        echo_json({"name": name, "command": line, "expires": int(expires)})
    else:
        echo(escaped(line))
    return OK


@hosts.command()
@click.argument("target")
@click.option("--name", type=HOST, help="Name of the host.  [default: from TARGET]")
@click.option(
    "--runspine", "program", default="runspine", show_default=True, help="The command on that machine."
)
@home_option
@pools_option
@slots_option
def add(target: str, name: str | None, program: str, home: Path, pools: str, slots: int | None) -> int:
    """Join machine TARGET (user@host) over your own ssh. Runspine has to be installed there."""
    from runspine.cli.ui.screen import note

    if target.startswith("-"):
        raise click.BadParameter(f"{target!r} is not user@host", param_hint="TARGET")
    name = name or re.sub(r"[^A-Za-z0-9_-]", "-", target.rpartition("@")[2].partition(".")[0])[:64]
    line = _invitation(home, name, time.time() + 600, pools, slots)
    address, token = line.split()[2:]
    note(f"joining {name} over ssh {escaped(target)}")
    # The token goes over stdin: arguments are visible to every user of that machine.
    done = subprocess.run(
        ["ssh", "--", target, program, "join", address, "-"], input=f"{token}\n", text=True, check=False
    )
    return OK if done.returncode == 0 else FAILED


@hosts.command("ls")
@home_option
@json_option
def list_hosts(home: Path, as_json: bool) -> int:
    """List the machines that have joined."""
    from runspine.cli.ui.screen import Cell, echo_json, note, table
    from runspine.embedded.home import Home, read_json
    from runspine.hosts.register import HostRegister

    register = HostRegister(Home.at(home))
    links = read_json(register.links_file) or {}
    found = [
        {
            "name": host.name,
            "state": host.state,
            "joined_at": int(host.joined_at),
            "connected": bool(links.get(host.name, {}).get("connected")),
            "last_seen": links.get(host.name, {}).get("last_seen", 0),
            "address": links.get(host.name, {}).get("peer", ""),
        }
        for host in register.hosts()
    ]
    if as_json:
        echo_json({"hosts": found})
    elif not found:
        note("no machine has joined: runspine hosts invite NAME")
    else:
        rows: list[list[Cell | str]] = [
            [
                escaped(each["name"]),
                Cell(each["state"], "green" if each["state"] == "active" else "yellow"),
                Cell("yes", "green") if each["connected"] else Cell("no", "red"),
                each["address"] or "–",
                age(int(each["last_seen"] * 1e6)) if each["last_seen"] else "–",
            ]
            for each in found
        ]
        table(("HOST", "STATE", "CONNECTED", "ADDRESS", "LAST SEEN"), rows)
    return OK


@hosts.command()
@click.argument("name", type=HOST)
@home_option
@click.option("--undo", is_flag=True, help="Let it take runs again.")
def drain(name: str, home: Path, undo: bool) -> int:
    """Stop the worker of NAME: its runs are handed back, and it takes no others."""
    from runspine.hosts.register import ACTIVE, DRAINING

    _set_state(home, name, ACTIVE if undo else DRAINING)
    return OK


@hosts.command("rm")
@click.argument("name", type=HOST)
@home_option
def remove(name: str, home: Path) -> int:
    """Revoke the credential of NAME and close its connections; its worker stops."""
    from runspine.hosts.register import REVOKED

    _set_state(home, name, REVOKED)
    return OK


@click.command()
@click.argument("address", required=False)
@click.argument("token", required=False)
@click.option(
    "--folder", type=click.Path(file_okay=False, path_type=Path), help="Where credentials and runs are kept."
)
def join(address: str | None, token: str | None, folder: Path | None) -> int:
    """Join a stack with the line that `runspine hosts invite` prints; alone, start this host's agent again.

    A TOKEN of - is read from stdin. Nothing is installed outside the folder but a systemd user unit.
    """
    from runspine.cli.ui.screen import note
    from runspine.hosts.joining import default_folder, enrol, start_agent

    place = (folder or default_folder()).absolute()
    if address is not None:
        if token is None:
            raise click.UsageError("a token is missing: copy the whole line of `runspine hosts invite`")
        given = sys.stdin.readline() if token == "-" else token
        note(f"joined as {escaped(enrol(address, given, place))}")
    note(f"worker started {start_agent(place)}; files in {escaped(str(place))}")
    return OK


def _invitation(home: Path, name: str, expires: float, pools: str, slots: int | None) -> str:
    from runspine.embedded.home import Home
    from runspine.hosts.register import HostRegister

    register = HostRegister(Home.at(home))
    variables = {"RUNSPINE_WORKER_POOLS": pools, **({"RUNSPINE_WORKER_SLOTS": str(slots)} if slots else {})}
    token = register.invite(name, expires - time.time(), variables)
    return f"runspine join {register.address()} {token}"


def _set_state(home: Path, name: str, state: str) -> None:
    from runspine.cli.ui.screen import note
    from runspine.embedded.home import Home
    from runspine.hosts.register import HostRegister

    HostRegister(Home.at(home)).set_state(name, state)
    note(f"{name}: {state}")

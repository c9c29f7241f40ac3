"""Joining a stack from another machine: enrol, keep what was given, and start the agent."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import ssl
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from runspine.embedded.home import read_json, write_private
from runspine.embedded.plan import source_root
from runspine.hosts.register import HostError, split_token
from runspine.hosts.wire import ENROL, dialled, pinned_context

UNIT = "runspine-host.service"
STARTED_SECONDS = 30.0


def default_folder() -> Path:
    data = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(data) / "runspine" / "host"


def enrol(address: str, token: str, folder: Path) -> str:
    """Exchange the invitation for this host's own credentials; its name. Raises HostError."""
    pin, secret = split_token(token)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.chmod(0o700)
    if (folder / "host.json").exists():
        raise HostError(
            f"{folder} belongs to a host that has joined: runspine join without a token starts it again; "
            "name another folder with --folder to join another stack"
        )

    async def ask() -> dict[str, Any]:
        request = {"to": ENROL, "secret": secret.hex()}
        async with dialled(address, pinned_context(), request, pin) as (_, _, reply):
            return reply

    try:
        bundle = asyncio.run(ask())
    except (OSError, ssl.SSLError, TimeoutError) as error:
        raise HostError(f"{address} cannot be reached: {str(error) or type(error).__name__}") from error
    write_private(folder / "authority.crt", bundle["authority"])
    write_private(folder / "host.key", bundle["key"])
    write_private(folder / "host.crt", bundle["certificate"])
    stored = {"name": bundle["name"], "address": address, "variables": bundle["variables"]}
    # Last: with this file the host has joined.
    write_private(folder / "host.json", json.dumps(stored, indent=2) + "\n")
    return str(bundle["name"])


def start_agent(folder: Path) -> str:
    """Start the agent as a user service, or detached with a watchdog; how. Raises HostError."""
    stored = read_json(folder / "host.json")
    if stored is None:
        raise HostError("this host has not joined a stack: use the line that `runspine hosts invite` prints")
    if is_running(folder):
        return "running already"
    how = _start_unit(folder) if has_user_services() else _start_detached(folder)
    deadline = time.monotonic() + STARTED_SECONDS
    while not is_running(folder):
        if time.monotonic() > deadline:
            raise HostError(f"the agent did not start: see {folder / 'agent.log'}")
        time.sleep(0.1)
    return how


def is_running(folder: Path) -> bool:
    """Whether an agent holds this folder."""
    import fcntl

    lock = os.open(folder / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def has_user_services() -> bool:
    """Whether systemd runs services of this user."""
    if shutil.which("systemctl") is None:
        return False
    asked = ["systemctl", "--user", "show-environment"]
    return subprocess.run(asked, capture_output=True, check=False, timeout=20).returncode == 0


def unit_text(folder: Path) -> str:
    """The unit of the agent. A removed host's agent ends with success and is not started again."""
    path = os.environ.get("PATH", "")
    root = source_root()
    return (
        "[Unit]\nDescription=Runspine worker of this host\n\n[Service]\n"
        f"Environment=PATH={path}\n"
        + (f"Environment=PYTHONPATH={root}\n" if root else "")
        + f'ExecStart="{sys.executable}" -P -m runspine.hosts.agent "{folder}"\n'
        "Restart=on-failure\nRestartSec=2\nKillMode=mixed\nTimeoutStopSec=60\n\n"
        "[Install]\nWantedBy=default.target\n"
    )


def _start_unit(folder: Path) -> str:
    units = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "systemd" / "user"
    units.mkdir(parents=True, exist_ok=True)
    (units / UNIT).write_text(unit_text(folder))
    for words in (("daemon-reload",), ("enable", "--now", UNIT)):
        done = subprocess.run(["systemctl", "--user", *words], capture_output=True, text=True, check=False)
        if done.returncode:
            raise HostError(f"systemctl --user {' '.join(words)}: {done.stderr.strip()}")
    # Without lingering the service ends with the last session; not every site allows it.
    subprocess.run(["loginctl", "enable-linger"], capture_output=True, check=False)
    return f"as the user service {UNIT}"


def _start_detached(folder: Path) -> str:
    watchdog = Path(__file__).parents[1] / "embedded" / "watchdog.py"
    root = source_root()
    path = os.pathsep.join(filter(None, [str(root or ""), os.environ.get("PYTHONPATH", "")]))
    environment = {**os.environ, **({"PYTHONPATH": path} if path else {})}
    with (folder / "agent.log").open("ab") as log:
        subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", str(watchdog)),
                *(sys.executable, "-P", "-m", "runspine.hosts.agent", str(folder)),
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return "in the background"

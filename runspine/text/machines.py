"""The state of a worker's machine in words: disk, directories of runs, GPUs."""

from __future__ import annotations

from runspine.text.values import escaped, size
from runspine.wire.v1.run_pb2 import GpuStatus, MachineStatus


def disk_text(machine: MachineStatus) -> str:
    """41.2 GB of 98.0 GB free; empty when it is not known."""
    if not machine.HasField("disk_free"):
        return ""
    total = f" of {size(machine.disk_total)}" if machine.HasField("disk_total") else ""
    return f"{size(machine.disk_free)}{total} free"


def run_folders_text(machine: MachineStatus) -> str:
    """12 run directories, 3.4 GB; empty when it is not known."""
    if not machine.HasField("run_folders"):
        return ""
    count = machine.run_folders
    taken = f", {size(machine.run_folder_bytes)}" if machine.HasField("run_folder_bytes") else ""
    return f"{count:,} run director{'y' if count == 1 else 'ies'}{taken}"


def gpu_text(gpu: GpuStatus) -> str:
    """NVIDIA A100: 87 %, 12.0 GB of 40.0 GB, 61 °C; what is not known is left out."""
    parts = []
    if gpu.HasField("utilisation"):
        parts.append(f"{gpu.utilisation:.0%}".replace("%", " %"))
    if gpu.HasField("memory_used") and gpu.HasField("memory_total"):
        parts.append(f"{size(gpu.memory_used)} of {size(gpu.memory_total)}")
    if gpu.HasField("temperature"):
        parts.append(f"{gpu.temperature:.0f} °C")
    name = escaped(gpu.name or gpu.id)
    return f"{name}: {', '.join(parts)}" if parts else name


def gpus_text(machine: MachineStatus) -> str:
    """Every GPU and the driver; empty without one."""
    driver = [f"driver {escaped(machine.gpu_driver)}"] if machine.gpus and machine.gpu_driver else []
    return "; ".join([*map(gpu_text, machine.gpus), *driver])

"""State of the worker's GPUs, read from the NVIDIA driver through NVML. What cannot be read is absent."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from runspine.wire.v1.run_pb2 import GpuStatus


@contextlib.contextmanager
def opened_nvml() -> Iterator[Any]:
    """NVML for a moment; None without the package or the driver."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        yield None
        return
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        yield None
        return
    try:
        yield nvml
    finally:
        nvml.nvmlShutdown()


def read_gpus(gpus: Sequence[str]) -> tuple[list[GpuStatus], str]:
    """The state of these GPUs, and the version of the driver. Blocks."""
    if not gpus:
        return [], ""
    with opened_nvml() as nvml:
        if nvml is None:
            return [], ""
        driver = ""
        with contextlib.suppress(nvml.NVMLError):
            driver = _text(nvml.nvmlSystemGetDriverVersion())
        return [status for gpu in gpus if (status := _status(nvml, gpu)) is not None], driver


def _status(nvml: Any, gpu: str) -> GpuStatus | None:
    try:
        handle = (
            nvml.nvmlDeviceGetHandleByIndex(int(gpu))
            if gpu.isdigit()
            else nvml.nvmlDeviceGetHandleByUUID(gpu)
        )
    except nvml.NVMLError:
        return None
    status = GpuStatus(id=gpu)
    with contextlib.suppress(nvml.NVMLError):
        status.name = _text(nvml.nvmlDeviceGetName(handle))
    with contextlib.suppress(nvml.NVMLError):
        memory = nvml.nvmlDeviceGetMemoryInfo(handle)
        status.memory_total, status.memory_used = int(memory.total), int(memory.used)
    with contextlib.suppress(nvml.NVMLError):
        status.utilisation = nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100
    with contextlib.suppress(nvml.NVMLError):
        status.temperature = float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    return status


def _text(value: str | bytes) -> str:
    """Older versions of the package return bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value

"""GPUs of this machine, by the ids that CUDA_VISIBLE_DEVICES uses. There may be none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import structlog

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU that can be allocated to a run."""

    id: str
    name: str = ""

    def __str__(self) -> str:
        return f"{self.id} ({self.name})" if self.name else self.id


def find_gpus(setting: str, environment: Mapping[str, str]) -> list[Gpu]:
    """GPUs that the worker may allocate: those of the setting, else of CUDA_VISIBLE_DEVICES, else all."""
    if setting.strip():
        return named_gpus(setting)
    if (visible := environment.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [Gpu(word) for word in _words(visible) if word != "-1"]
    return detected_gpus()


def named_gpus(setting: str) -> list[Gpu]:
    """A number alone counts them from 0; otherwise ids, comma separated (indices, GPU-… or MIG-…)."""
    if setting.strip().isdigit():
        return [Gpu(str(index)) for index in range(int(setting))]
    return [Gpu(word) for word in _words(setting)]


def detected_gpus() -> list[Gpu]:
    """All GPUs of the NVIDIA driver, by UUID: NVML and CUDA number the cards differently."""
    try:
        import pynvml  # type: ignore[import-untyped]
    except ImportError:
        return []
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        log.debug("gpu.none", reason=str(error))
        return []
    try:
        handles = [pynvml.nvmlDeviceGetHandleByIndex(i) for i in range(pynvml.nvmlDeviceGetCount())]
        return [Gpu(pynvml.nvmlDeviceGetUUID(h), pynvml.nvmlDeviceGetName(h)) for h in handles]
    except pynvml.NVMLError as error:
        log.warning("gpu.unreadable", reason=str(error))
        return []
    finally:
        pynvml.nvmlShutdown()


def _words(text: str) -> list[str]:
    return list(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def driver_version() -> str:
    """Version of the NVIDIA driver; empty without one."""
    try:
        import pynvml
    except ImportError:
        return ""
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return ""
    try:
        return str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError:
        return ""
    finally:
        pynvml.nvmlShutdown()

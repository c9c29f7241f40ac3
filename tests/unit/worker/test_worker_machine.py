"""What a worker measures of its machine, and which directories of runs it removes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.ids import new_ulid
from runspine.services.worker.machine.gpu_status import read_gpus
from runspine.services.worker.machine.removal import NotRemovedError, RemovalStoppedError, empty_directory
from runspine.services.worker.machine.removal_plan import (
    HOUR_MICROS,
    MAX_REMOVALS,
    MIB,
    EndedFolder,
    KeepRules,
    planned_removals,
)
from runspine.services.worker.machine.run_folders import Removal, RunFolders
from runspine.services.worker.machine.status import MachineCollector, MachineMonitor, measure_machine


@pytest.fixture
def parent(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    yield descriptor
    os.close(descriptor)


def go_on() -> bool:
    return False


def test_a_tree_is_emptied_without_following_its_links(tmp_path: Path, parent: int) -> None:
    outside, top = tmp_path / "outside", tmp_path / "top"
    (outside / "inner").mkdir(parents=True)
    (outside / "inner" / "kept").write_text("kept")
    (top / "one" / "two").mkdir(parents=True)
    for name in ("link", "one/link", "one/two/link", "moved-1", "moved-2"):
        (top / name).symlink_to(outside)
    (top / "one" / "two" / "file").write_text("gone")
    (top / "one" / "two").chmod(0)
    (top / "one").chmod(0o500)
    empty_directory("top", parent, go_on)
    assert list(top.iterdir()) == []
    assert (outside / "inner" / "kept").read_text() == "kept"


def test_a_link_in_the_place_of_the_directory_is_refused(tmp_path: Path, parent: int) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").write_text("kept")
    (tmp_path / "top").symlink_to(tmp_path / "outside")
    with pytest.raises(NotRemovedError):
        empty_directory("top", parent, go_on)
    assert (tmp_path / "outside" / "kept").exists()


def test_a_tree_deeper_than_any_stack_and_path_is_emptied(tmp_path: Path, parent: int) -> None:
    (tmp_path / "top").mkdir()
    here = os.open(tmp_path / "top", os.O_RDONLY)
    for _ in range(1100):
        os.mkdir("d" * 100, dir_fd=here)
        inner = os.open("d" * 100, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    empty_directory("top", parent, go_on)
    assert os.listdir(tmp_path / "top") == []


def test_a_removal_that_is_stopped_is_continued_by_the_next(tmp_path: Path, parent: int) -> None:
    for n in range(20):
        (tmp_path / "top" / str(n)).mkdir(parents=True)
        (tmp_path / "top" / str(n) / "file").touch()
    calls = iter(range(100))
    with pytest.raises(RemovalStoppedError):
        empty_directory("top", parent, lambda: next(calls) > 30)
    left = sum(1 for path in (tmp_path / "top").rglob("*") if path.is_file())
    assert 0 < left < 20
    empty_directory("top", parent, go_on)
    assert os.listdir(tmp_path / "top") == []


def ended(number: int, hours: float, mib: float = 1) -> EndedFolder:
    return EndedFolder(f"run-{number}", -int(hours * HOUR_MICROS), int(mib * MIB))


def test_old_directories_go_by_age_and_of_the_others_the_first_ended_by_size() -> None:
    folders = [ended(1, 2, 10), ended(2, 200, 10), ended(3, 1, 10), ended(4, 3, 10)]
    plan = planned_removals(folders, KeepRules(hours=168, mib=25), 0)
    assert [(folder.run_id, rule) for folder, rule in plan] == [
        ("run-2", "keep_run_hours=168"),
        ("run-4", "keep_runs_mib=25"),
    ]
    assert planned_removals(folders, KeepRules(float("inf"), float("inf")), 0) == []
    assert len(planned_removals(folders, KeepRules(hours=0, mib=25), 0)) == 4


@given(
    st.lists(st.tuples(st.floats(0, 1000), st.floats(0, 50)), max_size=80),
    st.floats(0, 500),
    st.floats(0, 500),
)
def test_what_stays_is_young_and_within_the_size(
    given_folders: list[tuple[float, float]], hours: float, mib: float
) -> None:
    folders = [ended(n, age, size) for n, (age, size) in enumerate(given_folders)]
    rules = KeepRules(hours, mib)
    gone = {folder.run_id for folder, _ in planned_removals(folders, rules, 0)}
    stays = [folder for folder in folders if folder.run_id not in gone]
    assert len(gone) <= MAX_REMOVALS
    if len(gone) < MAX_REMOVALS:
        assert sum(folder.size for folder in stays) <= mib * MIB or not stays
        assert all(-folder.ended_at < hours * HOUR_MICROS for folder in stays)


def test_the_name_of_a_directory_carries_what_its_fact_needs() -> None:
    removal = Removal(new_ulid(), 123, "keep_run_hours=0.5")
    assert Removal.parse(removal.name) == removal
    for name in ("", "x,1,rule", f"{new_ulid()},,rule", f"{new_ulid()},1,", f"{new_ulid()},-1,rule"):
        assert Removal.parse(name) is None


def test_a_directory_is_measured_again_when_its_run_was_held(tmp_path: Path) -> None:
    folders, run_id = RunFolders(tmp_path), new_ulid()
    assert (folders.count, folders.total_bytes) == (None, None)
    (tmp_path / "runs" / run_id).mkdir(parents=True)
    (tmp_path / "runs" / "no-run").mkdir()
    assert folders.survey({run_id}) == {}
    assert folders.count == 1
    before = folders.total_bytes
    (tmp_path / "runs" / run_id / "file").write_bytes(os.urandom(1 << 20))
    sizes = folders.survey(set())
    assert before is not None
    assert sizes[run_id] >= before + (1 << 20)
    assert folders.total_bytes == sizes[run_id]
    folders.set_aside(Removal(run_id, sizes[run_id], "keep_run_hours=0"))
    assert (folders.count, folders.total_bytes) == (0, 0)


class NvmlError(Exception):
    pass


class FakeNvml(ModuleType):
    """NVML of a machine with two GPUs, the second of which reports little."""

    NVMLError = NvmlError
    NVML_TEMPERATURE_GPU = 0

    def __init__(self) -> None:
        super().__init__("pynvml")
        self.open = 0

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"550.54"

    def nvmlDeviceGetHandleByUUID(self, gpu: str) -> str:
        if gpu not in ("GPU-a", "GPU-b"):
            raise NvmlError
        return gpu

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:
        return ("GPU-a", "GPU-b")[index]

    def nvmlDeviceGetName(self, handle: str) -> str:
        return f"NVIDIA {handle}"

    def nvmlDeviceGetMemoryInfo(self, handle: str) -> Any:
        self._only_first(handle)
        return SimpleNamespace(total=40 << 30, used=0)

    def nvmlDeviceGetUtilizationRates(self, handle: str) -> Any:
        self._only_first(handle)
        return SimpleNamespace(gpu=0)

    def nvmlDeviceGetTemperature(self, handle: str, kind: int) -> int:
        self._only_first(handle)
        return 61

    def _only_first(self, handle: str) -> None:
        if handle != "GPU-a":
            raise NvmlError


def test_what_a_gpu_does_not_report_is_absent_and_an_idle_one_is_zero(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    (first, second), driver = read_gpus(["GPU-a", "1", "GPU-gone"])
    assert (driver, first.name, second.id) == ("550.54", "NVIDIA GPU-a", "1")
    assert (first.memory_total, first.memory_used, first.utilisation) == (40 << 30, 0, 0.0)
    assert first.HasField("memory_used")
    assert first.HasField("utilisation")
    for field in ("memory_total", "memory_used", "utilisation", "temperature"):
        assert not second.HasField(field)  # type: ignore[arg-type]
    assert fake.open == 0
    monitor = MachineMonitor(tmp_path, RunFolders(tmp_path), ["GPU-a", "1"], 1)
    monitor.newest = measure_machine(tmp_path, RunFolders(tmp_path), ["GPU-a", "1"])
    samples = {
        (sample.name, sample.labels.get("gpu", "")): sample.value
        for family in MachineCollector(monitor).collect()
        for sample in family.samples
    }
    assert samples["runspine_worker_gpu_temperature_celsius", "GPU-a"] == 61
    assert ("runspine_worker_gpu_temperature_celsius", "1") not in samples
    assert samples["runspine_worker_disk_free_bytes", ""] > 0


def test_what_is_not_known_is_neither_reported_nor_sampled(tmp_path: Path) -> None:
    status = measure_machine(tmp_path / "absent", RunFolders(tmp_path), [])
    assert status.ByteSize() == 0
    assert [sample for family in MachineCollector().collect() for sample in family.samples] == []

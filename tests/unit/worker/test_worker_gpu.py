"""GPUs, room and cgroups: what is counted, given away and read."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspine.services.worker.claim.capacity import CapacityPool, measure
from runspine.services.worker.process.cgroup import Hits, hits, own_cgroup, set_limits
from runspine.services.worker.process.gpu import Gpu, detected_gpus, find_gpus
from runspine.services.worker.process.limits import LimitGuard, disk_used
from runspine.wire.v1.facts_pb2 import LIMIT, Capacity
from runspine.wire.v1.spec_pb2 import Limits, RunSpec


@pytest.mark.parametrize(
    ("setting", "environment", "ids"),
    [
        ("2", {}, ["0", "1"]),
        ("0", {"CUDA_VISIBLE_DEVICES": "0,1"}, []),
        ("MIG-a, MIG-b,MIG-a", {}, ["MIG-a", "MIG-b"]),
        ("3,5", {}, ["3", "5"]),
        ("", {"CUDA_VISIBLE_DEVICES": "1,3"}, ["1", "3"]),
        ("", {"CUDA_VISIBLE_DEVICES": ""}, []),
        ("", {"CUDA_VISIBLE_DEVICES": "-1"}, []),
    ],
)
def test_gpus_are_those_that_were_named_or_left_visible(
    setting: str, environment: dict[str, str], ids: list[str]
) -> None:
    assert [gpu.id for gpu in find_gpus(setting, environment)] == ids


def test_detection_finds_distinct_gpus_or_none_and_never_fails() -> None:
    found = detected_gpus()
    assert len({gpu.id for gpu in found}) == len(found)
    assert all(gpu.id.startswith("GPU-") and gpu.name for gpu in found)


def test_the_machine_is_measured() -> None:
    capacity = measure([Gpu("GPU-1", "A100")])
    assert capacity.cpus > 0
    assert capacity.memory_mib > 100
    assert list(capacity.gpus) == ["GPU-1 (A100)"]


def room(gpus: int = 2, memory: int = 1000, cpus: float = 2.0) -> CapacityPool:
    cards = [Gpu(str(n)) for n in range(gpus)]
    return CapacityPool(Capacity(cpus=cpus, memory_mib=memory, gpus=[card.id for card in cards]), cards)


def spec(gpus: int = 0, memory: int = 0, cpus: float = 0.0) -> RunSpec:
    return RunSpec(gpus=gpus, limits=Limits(memory_mib=memory, cpus=cpus))


def test_no_gpu_is_given_away_twice() -> None:
    here = room(gpus=3)
    first, second = here.take("a", spec(gpus=1)), here.take("b", spec(gpus=2))
    assert sorted((*first.gpus, *second.gpus)) == ["0", "1", "2"]
    assert here.lacks(spec(gpus=1)) == "needs 1 GPU, 0 of 3 free"
    here.release("a")
    assert here.take("c", spec(gpus=1)).gpus == first.gpus


def test_memory_and_cores_are_summed_over_the_runs_held() -> None:
    here = room()
    here.take("a", spec(memory=600, cpus=1.5))
    assert here.lacks(spec(memory=500)) == "needs 500 MiB of memory, 400 of 1,000 free"
    assert here.lacks(spec(cpus=1)) == "needs 1 core, 0.5 of 2 free"
    assert here.lacks(spec(memory=400, cpus=0.5)) == ""
    assert here.lacks(spec()) == ""
    here.release("a")
    assert here.lacks(spec(memory=1000, cpus=2)) == ""


def test_tenths_of_cores_add_up() -> None:
    here = room(cpus=1.0)
    for n in range(9):
        here.take(str(n), spec(cpus=0.1))
    assert here.lacks(spec(cpus=0.1)) == ""


def test_what_can_never_fit_is_distinguished_from_what_does_not_fit_now() -> None:
    here = room(gpus=0)
    assert here.never(spec(gpus=1)) == "needs 1 GPU, this worker has none"
    assert here.never(spec(memory=1001)) == "needs 1,001 MiB of memory, this worker has 1,000"
    assert here.never(spec(cpus=2.5)) == "needs 2.5 cores, this worker has 2"
    here.take("a", spec(memory=1000))
    assert here.never(spec(memory=1000)) == ""


def test_limits_go_to_the_kernel_where_the_cgroup_has_the_controllers(tmp_path: Path) -> None:
    for name in ("memory.max", "memory.swap.max", "memory.oom.group", "cpu.max"):
        (tmp_path / name).touch()
    limits = Limits(memory_mib=64, cpus=1.5, processes=10)
    assert set_limits(tmp_path, limits) == {"memory", "cpus"}
    assert (tmp_path / "memory.max").read_text() == str(64 << 20)
    assert (tmp_path / "memory.swap.max").read_text() == "0"
    assert (tmp_path / "memory.oom.group").read_text() == "1"
    assert (tmp_path / "cpu.max").read_text() == "150000 100000"
    assert not (tmp_path / "pids.max").exists()


def test_an_end_by_the_kernel_is_known_by_its_counters(tmp_path: Path) -> None:
    (tmp_path / "memory.events").write_text("low 0\nhigh 0\nmax 31\noom 1\noom_kill 2\noom_group_kill 1\n")
    (tmp_path / "memory.peak").write_text(f"{65 << 20}\n")
    (tmp_path / "pids.events").write_text("max 3\n")
    seen = hits(tmp_path)
    assert seen == Hits(oom_kills=2, refused_forks=3, memory_peak=65 << 20)
    memory = LimitGuard(
        Limits(memory_mib=64), Limits(memory_mib=64), tmp_path, 0, tmp_path, frozenset({"memory"})
    ).find_cause(9, seen)
    assert memory
    assert memory.outcome == LIMIT
    assert memory.reason.startswith("used 65 MiB of memory, more than limits.memory_mib: 64 (ended by the")
    forks = LimitGuard(
        Limits(processes=5), Limits(processes=5), tmp_path, 0, tmp_path, frozenset({"processes"})
    ).find_cause(0, seen)
    assert forks
    assert "more than limits.processes: 5" in forks.reason
    assert LimitGuard(Limits(), Limits(), tmp_path, 0, tmp_path, frozenset()).find_cause(9, seen) is None


def test_a_directory_is_measured_without_following_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "large").write_bytes(b"x" * (1 << 20))
    run_dir = tmp_path / "run"
    (run_dir / "deep").mkdir(parents=True)
    empty = disk_used(run_dir)
    (run_dir / "deep" / "file").write_bytes(b"x" * 100_000)
    (run_dir / "link").symlink_to(outside)
    once = disk_used(run_dir)
    assert 100_000 <= once - empty < 200_000
    (run_dir / "again").hardlink_to(run_dir / "deep" / "file")
    assert disk_used(run_dir) - once < 10_000


def test_a_process_finds_itself_in_the_unified_hierarchy() -> None:
    mounts = "proc /proc proc rw 0 0\ncgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
    assert own_cgroup(mounts, "0::/user.slice/w\n") == Path("/sys/fs/cgroup/user.slice/w")
    assert own_cgroup("", "0::/\n") is None

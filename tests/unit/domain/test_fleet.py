"""The index of workers equals folds over all of them, whatever happened before."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from runspine.bench.fleet.whole_folds import fitting_workers, known_runners
from runspine.services.orchestrator.core.indexes.fleet import Fleet
from runspine.wire.v1.facts_pb2 import Capacity
from runspine.wire.v1.run_pb2 import MachineStatus, Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import Limits, RunSpec

POOLS, RUNNERS = ("default", "gpu"), ("builtin", "sb3")


@st.composite
def workers(draw: st.DrawFn) -> Worker:
    infos = [
        RunnerInfo(
            name=name,
            not_ready=draw(st.sampled_from(["", "", "no torch"])),
            open_envs=True,
            envs=draw(st.lists(st.sampled_from(["A", "B"]), max_size=2, unique=True)),
        )
        for name in draw(st.lists(st.sampled_from(RUNNERS), max_size=2, unique=True))
    ]
    capacity = Capacity(cpus=4, memory_mib=draw(st.sampled_from([100, 900])), gpus=["0"])
    free = draw(st.sampled_from([None, 0, 5, 7]))
    return Worker(
        id=draw(st.sampled_from("uvw")),
        pools=draw(st.lists(st.sampled_from(POOLS), max_size=2)),
        online=draw(st.sampled_from([True, True, False])),
        slots=draw(st.integers(1, 2)),
        runners=infos,
        capacity=capacity if draw(st.booleans()) else None,
        machine=MachineStatus(disk_free=free) if free is not None else None,
    )


claims = st.tuples(st.sampled_from("rst"), st.sampled_from(["", "u", "v", "w"]))


@given(st.lists(st.one_of(workers(), claims), max_size=25))
def test_what_is_kept_up_to_date_equals_a_fold_over_all_workers(
    changes: list[Worker | tuple[str, str]],
) -> None:
    fleet, known, holders = Fleet(), dict[str, Worker](), dict[str, str]()
    for change in changes:
        if isinstance(change, Worker):
            fleet.update(change)
            known[change.id] = change
        else:
            fleet.hold(*change)
            holders[change[0]] = change[1]
    held = Counter(worker for worker in holders.values() if worker)
    online = [worker for worker in known.values() if worker.online]
    assert fleet.online == len(online)
    assert set(fleet.known_pools) == {pool for worker in known.values() for pool in worker.pools}
    assert set(fleet) == {pool for worker in online for pool in worker.pools}
    for name in POOLS:
        pool, serving = fleet.pool(name), [worker for worker in online if name in worker.pools]
        assert pool.online == len(serving)
        assert pool.free_slots == sum(max(0, worker.slots - held[worker.id]) for worker in serving)
        assert list(pool.with_gpus) == sorted(worker.id for worker in serving if worker.capacity.gpus)
        free = [worker.machine.disk_free for worker in serving if worker.machine.HasField("disk_free")]
        assert (len(pool.disk), pool.disk.most()) == (len(free), max(free, default=0))
        for runner in RUNNERS:
            spec = RunSpec(runner=runner, pool=name, limits=Limits(memory_mib=500))
            assert pool.that_could_launch(spec, 9) == fitting_workers(spec, known.values(), held)
            ready = [i for w in serving for i in w.runners if i.name == runner and not i.not_ready]
            assert pool.ready[runner] == len(ready)
    expected = known_runners({}, known.values())
    found = fleet.catalog.known({})
    assert {name: list(info.envs) for name, info in found.items()} == {
        name: list(info.envs) for name, info in expected.items()
    }


def test_an_installed_runner_is_known_until_a_worker_has_it_ready() -> None:
    installed = {"sb3": RunnerInfo(name="sb3", summary="installed")}
    fleet = Fleet([Worker(id="u", online=True, runners=[RunnerInfo(name="sb3", not_ready="no torch")])])
    assert fleet.catalog.known(installed) == installed
    ready = RunnerInfo(name="sb3", summary="a worker's")
    fleet.update(Worker(id="v", online=True, runners=[ready]))
    assert fleet.catalog.known(installed) == {"sb3": ready}
    fleet.update(Worker(id="v", online=False, runners=[ready]))
    assert fleet.catalog.known(installed) == installed


def test_most_workers_decide_which_report_of_a_runner_is_shown() -> None:
    old, new = RunnerInfo(name="sb3", summary="old"), RunnerInfo(name="sb3", summary="new")
    fleet = Fleet(Worker(id=f"w{n}", online=True, runners=[new if n else old]) for n in range(3))
    assert fleet.catalog.known({})["sb3"].summary == "new"

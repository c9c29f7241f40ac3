from __future__ import annotations

from runspine.domain.run import decide, fold
from runspine.domain.run.commands import Cancel, RecordExit, RecordStart, Submit
from runspine.eventlog.memory import MemoryLog
from runspine.eventlog.subjects import attempts_subject, run_subject, worker_subject
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.listing import list_runs
from runspine.services.orchestrator.core.reactions import react
from runspine.wire.v1.facts_pb2 import (
    EXITED,
    OFFLINE,
    SYNCING,
    AttemptExited,
    AttemptStarted,
    Counts,
    Fact,
    FoldersRemoved,
    Progress,
    RemovedFolder,
    Tracking,
    TrackingReported,
    WorkerOffline,
    WorkerOnline,
)
from runspine.wire.v1.preflight_pb2 import PREFLIGHT_READY, Preflight
from runspine.wire.v1.run_pb2 import (
    CANCELLED,
    COMPLETED,
    QUEUED,
    RUNNING,
    AttemptBeat,
    Beat,
    MachineStatus,
    Waiting,
)
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from runspine.wire.v1.trainer_pb2 import ListRequest

IDS = [f"01J0000000000000000000000{n}" for n in range(5)]


async def board_with_runs() -> tuple[Board, MemoryLog]:
    log, board = MemoryLog(), Board()

    async def emit(subject: str, *facts: Fact) -> None:
        _, version = await log.read(subject)
        await log.append(subject, list(facts), expected=version)

    for n, run_id in enumerate(IDS):
        spec = RunSpec(
            runner="script", env=f"Env-{n % 2}", algo="ppo", labels={"group": str(n % 3)}, total_steps=100
        )
        submit = Submit(at=n, run_id=run_id, name=f"run-{n}", spec=spec)
        await emit(run_subject(run_id), *decide(fold([]), submit))
    await emit(
        worker_subject("w1"),
        Fact(at=1, worker_online=WorkerOnline(worker_id="w1", pools=["default"], slots=2)),
    )
    await emit(
        attempts_subject(IDS[0]), Fact(at=5, attempt_started=AttemptStarted(attempt=1, worker_id="w1"))
    )
    for run_id in IDS[:2]:
        history, _ = await log.read(run_subject(run_id))
        run = fold(f for r in history for f in r.commit.facts)
        command = RecordStart(6, 1, "w1") if run_id == IDS[0] else Cancel(6)
        await emit(run_subject(run_id), *decide(run, command))
    for stream in Board.streams:
        async for recorded in log.follow(stream, live=False):
            board.apply(recorded)
    return board, log


async def test_the_board_is_what_the_log_adds_up_to() -> None:
    board, _ = await board_with_runs()
    assert [board.runs[i].phase for i in IDS] == [RUNNING, CANCELLED, QUEUED, QUEUED, QUEUED]
    assert board.open == set(IDS) - {IDS[1]}
    assert board.workers["w1"].online


async def test_a_board_restored_from_its_dump_is_the_same_board() -> None:
    board, _ = await board_with_runs()
    restored = Board()
    restored.load(board.dump())
    assert restored.runs == board.runs
    assert restored.attempts == board.attempts
    assert restored.workers == board.workers
    assert (restored.open, restored.ids) == (board.open, board.ids)
    assert restored.find("run-3") == board.find("run-3")


async def test_a_beat_brings_progress_of_the_current_attempt_only() -> None:
    board, _ = await board_with_runs()
    run = board.runs[IDS[0]]
    for attempt, step in ((1, 40), (7, 99)):
        beat = AttemptBeat(run_id=run.id, attempt=attempt, progress=Progress(step=step, total_steps=100))
        board.apply_heartbeat(Beat(worker_id="w1", attempts=[beat]), stored_at=9)
        if attempt == 1:
            assert board.progress(run).step == 40
    assert board.progress(run).total_steps == 100
    assert board.progress(run).step != 99
    assert board.workers["w1"].last_heard == 9


async def test_runs_are_found_by_id_beginning_and_name() -> None:
    board, _ = await board_with_runs()
    assert [r.id for r in board.find(IDS[2])] == [IDS[2]]
    assert [r.id for r in board.find("run-2")] == [IDS[2]]
    assert len(board.find("01j0000")) == 5
    assert board.find("01") == []
    assert board.find("nobody") == []


async def test_pages_hold_every_run_once_newest_first() -> None:
    board, _ = await board_with_runs()
    seen: list[str] = []
    token = ""
    while True:
        page = list_runs(board, ListRequest(page_size=2, page_token=token))
        assert page.total == 5
        seen += [s.run.id for s in page.runs]
        token = page.next_page_token
        if not token:
            break
    assert seen == sorted(IDS, reverse=True)


async def test_filters_keep_what_fits_all_of_them() -> None:
    board, _ = await board_with_runs()

    def ids(**request: object) -> list[str]:
        return [s.run.id for s in list_runs(board, ListRequest(**request)).runs]  # type: ignore[arg-type]

    assert ids(phases=[QUEUED]) == [IDS[4], IDS[3], IDS[2]]
    assert ids(env="Env-1") == [IDS[3], IDS[1]]
    assert ids(env="Env-1", labels={"group": "0"}) == [IDS[3]]
    assert ids(name="RUN-4") == [IDS[4]]
    assert ids(submitted_after=1, submitted_before=3) == [IDS[2], IDS[1]]
    assert ids(algo="dqn") == []
    board.runs[IDS[0]].submitted_by = "ann"
    board.rows.update(board.runs[IDS[0]])
    assert ids(submitted_by="ann") == [IDS[0]]
    board.runs[IDS[1]].spec.params["n"].integer = 1
    board.runs[IDS[2]].spec.params["n"].boolean = True
    assert ids(params={"n": Value(number=1.0)}) == [IDS[1]]
    assert ids(params={"n": Value(boolean=True)}) == [IDS[2]]
    assert ids(params={"n": Value(integer=1), "m": Value(integer=1)}) == []


async def test_a_reaction_is_due_until_the_run_has_caught_up_with_its_attempt() -> None:
    board, _ = await board_with_runs()
    run = board.runs[IDS[0]]
    history = board.attempts[IDS[0]]
    assert react(run, history, now=7) is None
    exited = AttemptExited(attempt=1, outcome=EXITED, counts=Counts(steps=3))
    history.attempts[0].exited.CopyFrom(exited)
    command = react(run, history, now=7)
    assert command == RecordExit(at=7, exited=exited, ended_at=0)
    ended = fold(decide(run, command), run)
    assert ended.phase == COMPLETED
    assert react(ended, history, now=7) is None


async def test_a_worker_that_signed_off_is_offline_with_its_reason() -> None:
    board, log = await board_with_runs()
    _, version = await log.read("workers.w1")
    off = Fact(at=9, worker_offline=WorkerOffline(worker_id="w1", reason="drained"))
    await log.append("workers.w1", [off], expected=version)
    async for recorded in log.follow("ATTEMPTS", live=False):
        board.apply(recorded)
    assert (board.workers["w1"].online, board.workers["w1"].reason) == (False, "drained")


async def test_a_queued_run_shows_what_it_waits_for_while_the_report_is_recent() -> None:
    board, _ = await board_with_runs()
    run, running = board.runs[IDS[2]], board.runs[IDS[0]]
    received = [Waiting(run_id=each.id, reason="needs 2 GPUs, 1 of 2 free") for each in (run, running)]
    board.apply_heartbeat(Beat(worker_id="w1", waiting=received), 1_000_000)
    assert board.with_wait_reasons(running, 2_000_000).reason == ""
    assert board.with_wait_reasons(run, 2_000_000).reason == "waits: needs 2 GPUs, 1 of 2 free (worker w1)"
    assert board.waits.counts(2_000_000) == {"default": 1}
    assert run.reason == ""
    assert board.with_wait_reasons(run, 60_000_000).reason == ""
    assert not board.waits.counts(60_000_000)
    board.apply_heartbeat(Beat(worker_id="w1"), 3_000_000)
    assert board.with_wait_reasons(run, 3_000_000).reason == ""


async def test_the_newest_address_at_a_tracker_is_part_of_the_listing() -> None:
    board, log = await board_with_runs()
    assert board.tracking(IDS[0]) is None
    for state, url in ((OFFLINE, ""), (SYNCING, "https://wandb.ai/lab/p/runs/x")):
        tracking = Tracking(service="wandb", state=state, url=url)
        fact = Fact(at=7, tracking_reported=TrackingReported(attempt=1, tracking=tracking))
        _, version = await log.read(attempts_subject(IDS[0]))
        await log.append(attempts_subject(IDS[0]), [fact], expected=version)
    async for recorded in log.follow("ATTEMPTS", live=False):
        board.apply(recorded)
    found = {each.run.id: each for each in list_runs(board, ListRequest()).runs}
    assert found[IDS[0]].tracking.url == "https://wandb.ai/lab/p/runs/x"
    assert found[IDS[0]].tracking.state == SYNCING
    assert not found[IDS[1]].HasField("tracking")


async def refill(board: Board, log: MemoryLog, subject: str, *facts: Fact) -> None:
    """Append to a subject of the stream ATTEMPTS and bring the board up to it."""
    _, version = await log.read(subject)
    await log.append(subject, list(facts), expected=version)
    history, _ = await log.read(subject)
    board.apply(history[-1])


async def test_the_state_of_a_machine_stays_until_a_heartbeat_brings_a_newer_one() -> None:
    board, log = await board_with_runs()
    board.apply_heartbeat(Beat(worker_id="w1", machine=MachineStatus(disk_free=5, disk_total=9)), 1)
    board.apply_heartbeat(Beat(worker_id="w1"), 2)
    assert board.workers["w1"].machine.disk_free == 5
    # It reports its envs a little later, as the same worker.
    online = WorkerOnline(worker_id="w1", pools=["default"], slots=2)
    await refill(board, log, worker_subject("w1"), Fact(at=3, worker_online=online))
    assert board.workers["w1"].machine.disk_free == 5
    board.apply_heartbeat(Beat(worker_id="w1", machine=MachineStatus(disk_total=9)), 4)
    assert not board.workers["w1"].machine.HasField("disk_free")


async def test_attempts_on_the_worker_that_removed_a_directory_know_when() -> None:
    board, log = await board_with_runs()
    started = AttemptStarted(attempt=2, worker_id="w2", versions={"cleanrl": "fe8d8a0"})
    await refill(board, log, attempts_subject(IDS[0]), Fact(at=6, attempt_started=started))
    removed = FoldersRemoved(worker_id="w1", folders=[RemovedFolder(run_id=IDS[0], bytes=7, rule="r")])
    await refill(board, log, worker_subject("w1"), Fact(at=8, folders_removed=removed))
    first, second = board.attempts[IDS[0]].attempts
    assert (first.folder_removed_at, second.folder_removed_at) == (8, 0)
    assert dict(second.versions) == {"cleanrl": "fe8d8a0"}


async def test_a_run_is_listed_with_its_newest_run_at_a_tracker() -> None:
    board, log = await board_with_runs()
    assert board.tracking(IDS[0]) is None
    for attempt, name in ((1, "first"), (2, "second")):
        subject = attempts_subject(IDS[0])
        begun = Fact(at=6, attempt_started=AttemptStarted(attempt=attempt, worker_id="w1"))
        await refill(board, log, subject, begun)
        tracking = Tracking(service="wandb", name=name)
        reported = TrackingReported(attempt=attempt, tracking=tracking)
        await refill(board, log, subject, Fact(at=7, tracking_reported=reported))
        assert board.tracking(IDS[0]) == tracking
    # An attempt that has none yet does not hide the one before.
    await refill(
        board,
        log,
        attempts_subject(IDS[0]),
        Fact(at=9, attempt_started=AttemptStarted(attempt=3, worker_id="w1")),
    )
    listed = {each.run.id: each for each in list_runs(board, ListRequest()).runs}
    assert listed[IDS[0]].tracking.name == "second"
    assert not listed[IDS[1]].HasField("tracking")


async def test_a_list_leaves_out_the_commands_of_launch_checks() -> None:
    log, board = MemoryLog(), Board()
    preflight = Preflight(state=PREFLIGHT_READY, command=["python", "x" * 1000])
    submit = Submit(at=1, run_id=IDS[0], name="n", spec=RunSpec(runner="script"), preflight=preflight)
    _, version = await log.read(run_subject(IDS[0]))
    await log.append(run_subject(IDS[0]), decide(fold([]), submit), expected=version)
    async for recorded in log.follow("RUNS", live=False):
        board.apply(recorded)
    assert board.runs[IDS[0]].preflight == preflight
    [listed] = list_runs(board, ListRequest()).runs
    assert not listed.run.HasField("preflight")

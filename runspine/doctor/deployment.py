"""Checks of a running deployment through its services. A token with the right to read is enough."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence

from runspine.doctor import Check
from runspine.domain.defaults import DEFAULT_POOL
from runspine.errors import RunNotFoundError, RunspineError
from runspine.eventlog.chain import ChainVerifier
from runspine.eventlog.subjects import FACT_STREAMS
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.channel import Tls, target
from runspine.rpc.loopback import is_loopback
from runspine.rpc.siblings import split_addresses
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.rpc.trainer_client import Client
from runspine.text.machines import disk_text, run_folders_text
from runspine.wire.v1.artifacts_pb2 import GetUsageResponse, ListArtifactsRequest
from runspine.wire.v1.run_pb2 import QUEUED, STALE, Phase, Run, Worker
from runspine.wire.v1.trainer_pb2 import ListRequest, StreamInfo

# A longer log is left to `runspine events verify`, which shows its progress.
QUICK_COMMITS = 50_000
SILENT_SECONDS = 30.0
SLOW_SECONDS = 1.0
LOW_DISK_SHARE = 0.1
DAY = 86_400.0
MAX_NAMED = 5
RESTORE = "stop the services and restore the last backup"


def examine(client: Client, now: float | None = None) -> Iterator[Check]:
    """Yield each check as soon as its result is known."""
    now = time.time() if now is None else now
    yield from _connections(client)
    began = time.monotonic()
    try:
        streams = list(client.describe_log())
    except RunspineError as error:
        # The other checks need a run.
        yield Check(
            "orchestrator", "fail", str(error), "look at its log, and at RUNSPINE_ADDRESS and RUNSPINE_TOKEN"
        )
        return
    yield _answered("orchestrator", client.endpoint.trainer, time.monotonic() - began)
    yield from _checked("log", lambda: _log(client, streams))
    yield from _checked("quarantine", lambda: _quarantine(client))
    yield from _checked("workers", lambda: check_workers(client.workers(), now))
    yield from _checked("runs", lambda: _runs(client))
    yield from _checked("telemetry", lambda: _telemetry(client))
    yield from _checked(
        "artifacts", lambda: _artifacts(ArtifactClient(client), client.endpoint.artifacts, now)
    )


def _checked(name: str, check: Callable[[], Iterator[Check]]) -> Iterator[Check]:
    """The results of a check, or a failure when its service does not answer."""
    try:
        yield from check()
    except RunspineError as error:
        yield Check(name, "fail", str(error), "look at the log of the service that does not answer")


def _connections(client: Client) -> Iterator[Check]:
    endpoint = client.endpoint
    tls = Tls.from_environment() if endpoint.tls is None else endpoint.tls
    given = (endpoint.trainer, endpoint.telemetry, endpoint.artifacts)
    places = [target(place, tls) for text in given for place in split_addresses(text)]
    bare = [
        where
        for where, secure in places
        if not secure and not is_loopback(where.rpartition(":")[0].strip("[]"))
    ]
    if bare:
        summary = f"plain text beyond loopback: {', '.join(bare)}"
        yield Check("connection", "warn", summary, "give the services certificates, and set RUNSPINE_TLS=1")
    else:
        secure = all(secure for _, secure in places)
        yield Check("connection", "ok", "TLS" if secure else "plain text on loopback")
    if not endpoint.token:
        yield Check("token", "note", "none is sent", "set RUNSPINE_TOKEN where the services ask for one")


def _quarantine(client: Client) -> Iterator[Check]:
    found = client.quarantines()
    if not found:
        yield Check("quarantine", "ok", "no subject is quarantined")
        return
    named = ", ".join(each.subject for each in found[:MAX_NAMED])
    more = f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else ""
    do = "runspine events quarantined shows the reasons; restore a backup, or runspine events release SUBJECT"
    yield Check("quarantine", "fail", f"{len(found)} subjects are quarantined: {named}{more}", do)


def _answered(name: str, address: str, seconds: float) -> Check:
    summary = f"{address} answers in {seconds * 1000:.0f} ms"
    if seconds > SLOW_SECONDS:
        return Check(name, "warn", summary, "the machine or the network is busy; see Grafana's fleet board")
    return Check(name, "ok", summary)


def _log(client: Client, streams: Sequence[StreamInfo]) -> Iterator[Check]:
    kept = [info for info in streams if info.name in FACT_STREAMS]
    if missing := set(FACT_STREAMS) - {info.name for info in kept}:
        yield Check(
            "log", "fail", f"no stream {', '.join(sorted(missing))}", "see docs/howto/backup.md: restore"
        )
    for info in kept:
        if info.witness.sequence > info.last_sequence:
            summary = (
                f"{info.name} ends at {info.last_sequence}, but {info.witness.sequence} had been written"
            )
            yield Check("log", "fail", summary, RESTORE)
    commits = sum(info.commits for info in kept)
    if commits > QUICK_COMMITS:
        yield Check(
            "log", "note", f"{commits:,} commits, not verified", "runspine events verify checks all of it"
        )
        return
    problems = [problem for info in kept for problem in _verified(client, info).problems]
    for problem in problems:
        yield Check("log", "fail", str(problem), RESTORE)
    if not problems:
        yield Check("log", "ok", f"whole: {commits:,} commits, every link of the chain checked")


def _verified(client: Client, info: StreamInfo) -> ChainVerifier:
    witness = info.witness
    verifier = ChainVerifier(
        info.name, witnesses={witness.sequence: witness.digest} if witness.sequence else {}
    )
    for record in client.read_log(info.name):
        verifier.feed(record.sequence, record.subject, record.commit, record.digest)
    verifier.finish(info.last_sequence)
    return verifier


def check_workers(workers: Sequence[Worker], now: float) -> Iterator[Check]:
    online = [worker for worker in workers if worker.online]
    if not online:
        yield Check("workers", "warn", "none is online: runs will wait", "start one, or look at its log")
        return
    slots, busy = sum(worker.slots for worker in online), sum(len(worker.running) for worker in online)
    yield Check("workers", "ok", f"{len(online)} online, {busy} of {slots} slots busy")
    for worker in online:
        silent = now - worker.last_heard / 1e6
        if silent > SILENT_SECONDS:
            summary = f"{worker.id} on {worker.host} sent no heartbeat for {silent:.0f} s"
            yield Check(
                "workers",
                "warn",
                summary,
                "check its machine and its connection to NATS; its runs start again elsewhere",
            )
    yield from _worker_disks(online)
    if len(versions := sorted({worker.version for worker in online})) > 1:
        yield Check("workers", "warn", f"several versions: {', '.join(versions)}", "upgrade the older ones")


def _worker_disks(workers: Sequence[Worker]) -> Iterator[Check]:
    for worker in workers:
        machine = worker.machine
        if not machine.HasField("disk_free") or not machine.disk_total:
            continue
        kept = f", {text}" if (text := run_folders_text(machine)) else ""
        if machine.disk_free / machine.disk_total < LOW_DISK_SHARE:
            summary = f"{worker.id}: {disk_text(machine)}{kept}"
            do = "lower RUNSPINE_KEEP_RUN_HOURS or RUNSPINE_KEEP_RUNS_MIB there, or give it more disk"
            yield Check("worker disk", "warn", summary, do)


def _runs(client: Client) -> Iterator[Check]:
    waiting, stale = _of_phase(client, QUEUED), _of_phase(client, STALE)
    served = {pool for worker in client.workers() if worker.online for pool in worker.pools}
    if stale:
        summary = f"{len(stale)} stale: {', '.join(run.id for run in stale[:3])}"
        yield Check("runs", "warn", summary, "wait for their next attempt, or look at their workers")
    lost = sorted({run.spec.pool or DEFAULT_POOL for run in waiting} - served)
    if lost:
        summary = f"{len(waiting)} wait, and no worker that is online serves {', '.join(lost)}"
        yield Check("runs", "warn", summary, "start a worker with that pool, or see that its launcher runs")
    if not stale and not lost:
        yield Check("runs", "ok", f"{len(waiting)} wait, none is stale")


def _of_phase(client: Client, phase: Phase) -> list[Run]:
    request = ListRequest(phases=[phase], page_size=500)
    return [summary.run for page in client.pages(request) for summary in page.runs]


def _telemetry(client: Client) -> Iterator[Check]:
    newest = next(client.pages(ListRequest(page_size=1))).runs
    began = time.monotonic()
    # Without any run, NOT_FOUND shows as well that the service answers.
    with contextlib.suppress(RunNotFoundError):
        TelemetryClient(client).series(newest[0].run.id if newest else "0" * 26)
    yield _answered("telemetry", client.endpoint.telemetry, time.monotonic() - began)


def _artifacts(artifacts: ArtifactClient, address: str, now: float) -> Iterator[Check]:
    began = time.monotonic()
    usage = artifacts.usage()
    yield _answered("artifacts", address, time.monotonic() - began)
    stored = sum(item.bytes for item in usage.bucket)
    yield Check(
        "objects", "ok", f"{stored / 1e9:.2f} GB in {sum(item.objects for item in usage.bucket):,} objects"
    )
    yield from check_disk(usage)
    yield from check_scrub(usage, now)
    corrupt = artifacts.list(ListArtifactsRequest(only_corrupt=True))
    for artifact in corrupt[:5]:
        summary = f"{artifact.name} of {artifact.run_id} is corrupt"
        yield Check("objects", "fail", summary, "restore it from a backup; `best` and `latest` skip it")
    if missing := artifacts.orphans().missing:
        summary = (
            f"{len(missing)} on the log are not in S3, the first: {missing[0].name} of {missing[0].run_id}"
        )
        yield Check("objects", "fail", summary, "restore them from a backup")
    if not corrupt and not missing:
        yield Check("objects", "ok", "all that the log names is there, none is corrupt")


def check_disk(usage: GetUsageResponse) -> Iterator[Check]:
    if usage.HasField("disk") and usage.disk.total:
        share = usage.disk.free / usage.disk.total
        summary = f"{usage.disk.free / (1 << 30):.1f} GiB free below S3"
        do = "prune, or give it more: on a full disk nothing can be stored"
        yield Check("disk", "warn", summary, do) if share < LOW_DISK_SHARE else Check("disk", "ok", summary)


def check_scrub(usage: GetUsageResponse, now: float) -> Iterator[Check]:
    finished = usage.scrub.finished_at / 1e6
    if finished and now - finished > 3 * DAY:
        summary = f"all objects were last verified {(now - finished) / DAY:.0f} days ago"
        yield Check("objects", "warn", summary, "see the artifacts service's log: it should be once a day")

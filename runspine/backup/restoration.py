"""Restores a backup into an empty system: bytes first, then the facts that name them.

An interrupted restore continues when started again: what exists must be a prefix of the backup.
"""

from __future__ import annotations

from contextlib import aclosing

from runspine.backup.archive import MANIFESTS
from runspine.backup.creation import ReportProgress
from runspine.backup.index import BackupIndex
from runspine.backup.site import OpenSite
from runspine.backup.streams import append_records, records_of
from runspine.backup.target import OBJECTS, BackupTarget, fingerprint
from runspine.errors import InvalidError, RefusedError
from runspine.eventlog.api import ask
from runspine.eventlog.server_errors import ServerRefusedError
from runspine.eventlog.streams import ensure_streams
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS, TELEMETRY
from runspine.storage.keys import digest_in

# The stream that an orchestrator acts on comes last.
ORDER = (ARTIFACTS, ATTEMPTS, RUNS)


async def restore(
    site: OpenSite,
    target: BackupTarget,
    index: BackupIndex,
    report: ReportProgress,
    *,
    replicas: int = 1,
    telemetry_bytes: int = 4 << 30,
) -> None:
    """Raises RefusedError when the system is not empty, InvalidError when the backup is damaged."""
    await site.blobs.ensure_bucket()
    await ensure_streams(
        site.link, replicas=replicas, telemetry_bytes=max(telemetry_bytes, 2 * _tail_bytes(index))
    )
    await _check_archive(site, index)
    lengths = {stream: await _restored_length(site, target, index, stream) for stream in ORDER}
    await _objects(site, target, index, report)
    await _telemetry(site, target, index, report)
    for stream in ORDER:
        await _fill(site, target, index, stream, lengths[stream], report)


def _tail_bytes(index: BackupIndex) -> int:
    # Files are compressed; the stream's own compression is no better.
    return sum(chunk.size for chunk in index.chunks_of(TELEMETRY)) * 8


async def _check_archive(site: OpenSite, index: BackupIndex) -> None:
    own = {kept.key for kept in index.objects}
    for key in await site.blobs.keys(MANIFESTS):
        if key not in own:
            raise RefusedError(
                f"the bucket has a telemetry archive of its own ({key}): restore into an empty one"
            )


async def _restored_length(site: OpenSite, target: BackupTarget, index: BackupIndex, stream: str) -> int:
    """The length of the stream, all of which must equal the backup. Raises RefusedError."""
    extent = await site.log.extent(stream)
    if extent.last == 0:
        return 0
    wanted = records_of(target, index, stream)
    async with aclosing(site.log.follow(stream, live=False)) as records:
        async for there in records:
            record = next(wanted, None)
            if record is None or (record.sequence, record.digest) != (there.sequence, there.digest):
                raise RefusedError(
                    f"{stream} {there.sequence} on {there.subject} is not of this backup: restore into an "
                    "empty system, and start its services afterwards"
                )
    return extent.last


async def _objects(site: OpenSite, target: BackupTarget, index: BackupIndex, report: ReportProgress) -> None:
    total, done = sum(kept.size for kept in index.objects), 0
    report("objects", 0, total)
    for kept in index.objects:
        with target.file(f"{OBJECTS}/{kept.key}") as path:
            if fingerprint(path) != (kept.size, kept.sha256):
                raise InvalidError(f"{target.name}: {kept.key} was changed since the backup was made")
            # An existing object named by its digest is kept if its bytes match; all others are replaced.
            replace = not digest_in(kept.key)
            await site.blobs.store(path, kept.key, kept.sha256, replace=replace)
        done += kept.size
        report("objects", done, total)


async def _telemetry(
    site: OpenSite, target: BackupTarget, index: BackupIndex, report: ReportProgress
) -> None:
    """The stream starts after the archive's cursor, where its readers resume."""
    extent = await site.log.extent(TELEMETRY)
    if extent.last == 0 and index.tail_first > 1:
        # Purging an empty stream moves its first sequence.
        try:
            await ask(site.link, f"STREAM.PURGE.{TELEMETRY}", {"seq": index.tail_first})
        except ServerRefusedError as error:
            raise RefusedError(f"{TELEMETRY}: {error}") from error
        extent = await site.log.extent(TELEMETRY)
    if extent.last + 1 < index.tail_first or (extent.commits and extent.first != index.tail_first):
        raise RefusedError(f"{TELEMETRY} holds other telemetry: restore into an empty system")
    await _fill(site, target, index, TELEMETRY, extent.last, report)


async def _fill(
    site: OpenSite, target: BackupTarget, index: BackupIndex, stream: str, after: int, report: ReportProgress
) -> None:
    last = index.tail_last if stream == TELEMETRY else index.facts.get(stream, 0)
    report(stream, after, last)
    async with aclosing(
        append_records(site, stream, records_of(target, index, stream), after=after)
    ) as batches:
        async for count in batches:
            after += count
            report(stream, after, last)
    end = (await site.log.extent(stream)).last
    if end != last:
        raise RefusedError(
            f"{stream} ends at {end} and the backup at {last}: something else writes to this log"
        )


async def compare(
    site: OpenSite, target: BackupTarget, index: BackupIndex, report: ReportProgress
) -> list[str]:
    """Read the facts back and compare them with the backup; the differences."""
    problems: list[str] = []
    for stream in ORDER:
        last, wanted = index.facts.get(stream, 0), records_of(target, index, stream)
        if not last:
            continue
        async with aclosing(site.log.follow(stream, live=False)) as records:
            async for there in records:
                record = next(wanted, None)
                if record is None or (record.subject, record.commit) != (there.subject, there.data):
                    problems.append(f"{stream} {there.sequence} is not as in the backup")
                    break
                report(f"checking {stream}", there.sequence, last)
        if next(wanted, None) is not None and not problems:
            problems.append(f"{stream} ends before the backup does")
    return problems

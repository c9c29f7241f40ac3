"""Makes a backup of a running system.

The end of each stream of facts is taken first, then every object they name is copied: bytes are stored
before the fact that names them, so the objects copied afterwards include all that the facts name.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from contextlib import aclosing

from runspine import __version__
from runspine.backup.archive import Archived, ArchiveMovedError, read_archive
from runspine.backup.index import BackupIndex, BackupObject, Chunk
from runspine.backup.objects import copy_objects, is_wanted
from runspine.backup.references import References
from runspine.backup.site import OpenSite
from runspine.backup.streams import StreamStalledError, chunks_in, copy_stream, records_of
from runspine.backup.target import OBJECTS, Folder, fingerprint
from runspine.clock import now_micros
from runspine.errors import InvalidError, RefusedError
from runspine.eventlog.subjects import FACT_STREAMS, TELEMETRY
from runspine.storage.keys import artifact_key, code_digest_in, digest_in, trash_key

# Called with a step, how much of it is done, and of how much: bytes for objects, commits for facts.
ReportProgress = Callable[[str, int, int], None]
MAX_TRIES = 5


async def save(site: OpenSite, folder: Folder, report: ReportProgress) -> BackupIndex:
    """Bring the folder up to date with the system. Can be interrupted and started again at any time."""
    made_at = now_micros()
    cut = {stream: (await site.log.extent(stream)).last for stream in FACT_STREAMS}
    chunks: list[Chunk] = []
    for stream, last in cut.items():
        chunks += await _facts(site, folder, stream, last, report)
    archived, tail, segments = await _telemetry(site, folder, report)
    objects, missing = await _objects(site, folder, _references(folder, cut, chunks), report)
    index = BackupIndex(
        made_at=made_at,
        version=__version__,
        facts=cut,
        tail_first=archived.first,
        tail_last=tail[-1].last if tail else max(archived.furthest, archived.first - 1),
        chunks=(*chunks, *tail),
        # Manifests come last: they name the objects before them.
        objects=(*objects, *segments, *await _manifests(folder, archived)),
        missing=tuple(sorted(missing)),
    )
    folder.finish(index)
    _remove_old_tail(folder, tail)
    return index


async def _facts(
    site: OpenSite, folder: Folder, stream: str, last: int, report: ReportProgress
) -> list[Chunk]:
    chunks = await asyncio.to_thread(chunks_in, folder, stream)
    if chunks:
        await _check_same_log(site, folder, stream, chunks[-1], last)
    done = chunks[-1].last if chunks else 0
    report(stream, done, last)
    async with aclosing(copy_stream(site, folder, stream, done, last)) as copied:
        async for chunk in copied:
            chunks.append(chunk)
            report(stream, chunk.last, last)
    return chunks


async def _check_same_log(site: OpenSite, folder: Folder, stream: str, chunk: Chunk, last: int) -> None:
    """Refuse a folder with the backup of another log. Raises RefusedError."""
    index = BackupIndex(0, "", {}, 1, 0, (chunk,), ())
    newest = list(records_of(folder, index, stream))[-1]
    if last < newest.sequence:
        raise RefusedError(
            f"{stream} ends at {last}, and {folder.name} has it up to {chunk.last}: this is the backup of "
            "another log, or the log has lost its end. Choose an empty folder; keep this one"
        )
    async with aclosing(site.log.follow(stream, after=newest.sequence - 1, live=False)) as records:
        async for found in records:
            if found.digest != newest.digest:
                raise RefusedError(
                    f"{stream} {newest.sequence} is another commit in {folder.name}: "
                    "this is the backup of another log. Choose an empty folder"
                )
            return


def _references(folder: Folder, cut: dict[str, int], chunks: list[Chunk]) -> set[str]:
    index = BackupIndex(0, "", cut, 1, 0, tuple(chunks), ())
    references = References()
    for stream in cut:
        references.feed(records_of(folder, index, stream))
    return references.digests()


async def _telemetry(
    site: OpenSite, folder: Folder, report: ReportProgress
) -> tuple[Archived, list[Chunk], list[BackupObject]]:
    """The archive and the stream after it at one moment; repeated when compaction or trimming interferes."""
    for _ in range(MAX_TRIES):
        try:
            archived = await read_archive(site.blobs)
            tail = await _tail(site, folder, archived, report)
            return archived, tail, await _segments(site, folder, archived, report)
        except (ArchiveMovedError, StreamStalledError):
            continue
    raise RefusedError(
        f"the telemetry archive changed {MAX_TRIES} times while it was being read: try again later"
    )


async def _tail(site: OpenSite, folder: Folder, archived: Archived, report: ReportProgress) -> list[Chunk]:
    extent = await site.log.extent(TELEMETRY)
    if extent.last < archived.furthest:
        raise RefusedError(
            f"{TELEMETRY} ends at {extent.last}, but {archived.furthest} was archived: "
            "the stream was created again or lost its end; see `runspine doctor`"
        )
    if not extent.commits:
        return []
    if extent.first > archived.first:
        raise ArchiveMovedError("the stream was trimmed")
    chunks: list[Chunk] = []
    report("telemetry tail", 0, extent.last - archived.first + 1)
    async with aclosing(copy_stream(site, folder, TELEMETRY, archived.first - 1, extent.last)) as copied:
        async for chunk in copied:
            chunks.append(chunk)
            report("telemetry tail", chunk.last - archived.first + 1, extent.last - archived.first + 1)
    if chunks and (chunks[0].first != archived.first or not _contiguous(chunks)):
        raise ArchiveMovedError("the stream was trimmed meanwhile")
    return chunks


def _contiguous(chunks: list[Chunk]) -> bool:
    return all(one.last + 1 == two.first for one, two in itertools.pairwise(chunks))


async def _segments(
    site: OpenSite, folder: Folder, archived: Archived, report: ReportProgress
) -> list[BackupObject]:
    total, done, kept = sum(size for size, _ in archived.segments.values()), 0, []
    report("telemetry segments", 0, total)
    async with aclosing(copy_objects(site.blobs, folder, archived.segments)) as copied:
        async for key, found, why in copied:
            if found is None:
                if key in (await read_archive(site.blobs)).segments:
                    raise InvalidError(f"{key}: {why}; the archive is damaged there, see `runspine doctor`")
                raise ArchiveMovedError(key)
            kept.append(found)
            done += found.size
            report("telemetry segments", done, total)
    return kept


async def _manifests(folder: Folder, archived: Archived) -> list[BackupObject]:
    kept = []
    for key, data in archived.manifests.items():
        name = f"{OBJECTS}/{key}"
        path = folder.path_of(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_bytes(data)
        await asyncio.to_thread(folder.adopt, draft, name)
        kept.append(BackupObject(key, *fingerprint(path)))
    return kept


async def _objects(
    site: OpenSite, folder: Folder, needed: set[str], report: ReportProgress
) -> tuple[list[BackupObject], set[str]]:
    """All other objects of the bucket, and the digests that the facts name but S3 does not have."""
    listed = [found for found in await site.blobs.listed("") if is_wanted(found.key)]
    wanted = {found.key: (found.size, digest_in(found.key) or code_digest_in(found.key)) for found in listed}
    # Pruned since the listing: the trash has it for a while.
    for digest in needed - {digest_in(key) for key in wanted}:
        wanted[artifact_key(digest)] = (0, digest)
        wanted[trash_key(digest)] = (0, digest)
    total, done, kept = sum(size for size, _ in wanted.values()), 0, []
    report("objects", 0, total)
    async with aclosing(copy_objects(site.blobs, folder, wanted)) as copied:
        async for _, found, _ in copied:
            if found is not None:
                kept.append(found)
                done += found.size
                report("objects", done, max(total, done))
    return sorted(kept, key=lambda each: each.key), needed - {digest_in(each.key) for each in kept}


def _remove_old_tail(folder: Folder, tail: list[Chunk]) -> None:
    """Remove files of the TELEMETRY stream of an older backup: their batches are in segments by now."""
    needed = {chunk.file for chunk in tail}
    for path in (folder.path / "streams" / TELEMETRY).glob("*.log"):
        if str(path.relative_to(folder.path)) not in needed:
            path.unlink()

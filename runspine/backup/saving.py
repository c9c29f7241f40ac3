"""Making a backup of a system that goes on working meanwhile.

First a cut through the facts, then everything they speak of: bytes are stored before the fact that
names them, so what is copied after the cut is at least what the facts know.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable
from contextlib import aclosing

from runspine import __version__
from runspine.backup.archive import Archived, Moved, read_archive
from runspine.backup.index import Chunk, Index, Kept
from runspine.backup.objects import PLACE, TRASH, copy_objects, digest_in, is_wanted
from runspine.backup.references import References
from runspine.backup.shelf import OBJECTS, Folder, fingerprint
from runspine.backup.site import Open
from runspine.backup.streams import Stalled, chunks_in, copy_stream, records_of
from runspine.errors import Invalid, Refused
from runspine.log.subjects import FACT_STREAMS, TELEMETRY

# What is under way, how much of it is done, and of how much; bytes for objects, commits for facts.
Tell = Callable[[str, int, int], None]
TRIES = 5


async def save(site: Open, folder: Folder, tell: Tell) -> Index:
    """Bring the folder up to date with the system. Can be broken off and begun again at any time."""
    made_at = time.time_ns() // 1000
    cut = {stream: (await site.log.extent(stream)).last for stream in FACT_STREAMS}
    chunks: list[Chunk] = []
    for stream, last in cut.items():
        chunks += await _facts(site, folder, stream, last, tell)
    archived, tail, segments = await _telemetry(site, folder, tell)
    objects, missing = await _objects(site, folder, _references(folder, cut, chunks), tell)
    index = Index(
        made_at=made_at,
        version=__version__,
        facts=cut,
        tail_first=archived.first,
        tail_last=tail[-1].last if tail else max(archived.furthest, archived.first - 1),
        chunks=(*chunks, *tail),
        # Manifests last: they say that everything before them is there.
        objects=(*objects, *segments, *await _manifests(folder, archived)),
        missing=tuple(sorted(missing)),
    )
    folder.finish(index)
    _forget_old_tail(folder, tail)
    return index


async def _facts(site: Open, folder: Folder, stream: str, last: int, tell: Tell) -> list[Chunk]:
    chunks = await asyncio.to_thread(chunks_in, folder, stream)
    if chunks:
        await _check_same_log(site, folder, stream, chunks[-1], last)
    done = chunks[-1].last if chunks else 0
    tell(stream, done, last)
    async with aclosing(copy_stream(site, folder, stream, done, last)) as copied:
        async for chunk in copied:
            chunks.append(chunk)
            tell(stream, chunk.last, last)
    return chunks


async def _check_same_log(site: Open, folder: Folder, stream: str, chunk: Chunk, last: int) -> None:
    """A folder is the backup of one log for ever. Raises Refused."""
    index = Index(0, "", {}, 1, 0, (chunk,), ())
    newest = list(records_of(folder, index, stream))[-1]
    if last < newest.sequence:
        raise Refused(
            f"{stream} ends at {last}, and {folder.name} has it up to {chunk.last}: this is the backup of "
            "another log, or the log has lost its end. Choose an empty folder; keep this one"
        )
    async with aclosing(site.log.follow(stream, after=newest.sequence - 1, live=False)) as records:
        async for found in records:
            if found.digest != newest.digest:
                raise Refused(
                    f"{stream} {newest.sequence} is another commit in {folder.name}: "
                    "this is the backup of another log. Choose an empty folder"
                )
            return


def _references(folder: Folder, cut: dict[str, int], chunks: list[Chunk]) -> set[str]:
    index = Index(0, "", cut, 1, 0, tuple(chunks), ())
    references = References()
    for stream in cut:
        references.feed(records_of(folder, index, stream))
    return references.digests()


async def _telemetry(site: Open, folder: Folder, tell: Tell) -> tuple[Archived, list[Chunk], list[Kept]]:
    """The archive and the stream behind it, of one moment: again when compaction or trimming overtakes us."""
    for _ in range(TRIES):
        try:
            archived = await read_archive(site.blobs)
            tail = await _tail(site, folder, archived, tell)
            return archived, tail, await _segments(site, folder, archived, tell)
        except (Moved, Stalled):
            continue
    raise Refused(f"the telemetry archive changed {TRIES} times while it was being read: try again later")


async def _tail(site: Open, folder: Folder, archived: Archived, tell: Tell) -> list[Chunk]:
    extent = await site.log.extent(TELEMETRY)
    if extent.last < archived.furthest:
        raise Refused(
            f"{TELEMETRY} ends at {extent.last}, but {archived.furthest} was archived: "
            "the stream was made anew or lost its end; see `runspine doctor`"
        )
    if not extent.commits:
        return []
    if extent.first > archived.first:
        raise Moved("the stream was trimmed")
    chunks: list[Chunk] = []
    tell("telemetry tail", 0, extent.last - archived.first + 1)
    async with aclosing(copy_stream(site, folder, TELEMETRY, archived.first - 1, extent.last)) as copied:
        async for chunk in copied:
            chunks.append(chunk)
            tell("telemetry tail", chunk.last - archived.first + 1, extent.last - archived.first + 1)
    if chunks and (chunks[0].first != archived.first or not _unbroken(chunks)):
        raise Moved("the stream was trimmed meanwhile")
    return chunks


def _unbroken(chunks: list[Chunk]) -> bool:
    return all(one.last + 1 == two.first for one, two in itertools.pairwise(chunks))


async def _segments(site: Open, folder: Folder, archived: Archived, tell: Tell) -> list[Kept]:
    total, done, kept = sum(size for size, _ in archived.segments.values()), 0, []
    tell("telemetry segments", 0, total)
    async with aclosing(copy_objects(site.blobs, folder, archived.segments)) as copied:
        async for key, found, why in copied:
            if found is None:
                if key in (await read_archive(site.blobs)).segments:
                    raise Invalid(f"{key}: {why}; the archive is damaged there, see `runspine doctor`")
                raise Moved(key)
            kept.append(found)
            done += found.size
            tell("telemetry segments", done, total)
    return kept


async def _manifests(folder: Folder, archived: Archived) -> list[Kept]:
    kept = []
    for key, data in archived.manifests.items():
        name = f"{OBJECTS}/{key}"
        path = folder.place(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.draft")
        draft.write_bytes(data)
        await asyncio.to_thread(folder.adopt, draft, name)
        kept.append(Kept(key, *fingerprint(path)))
    return kept


async def _objects(site: Open, folder: Folder, needed: set[str], tell: Tell) -> tuple[list[Kept], set[str]]:
    """Everything else in the bucket, and the digests that the facts need and that could not be had."""
    listed = [found for found in await site.blobs.listed("") if is_wanted(found.key)]
    wanted = {found.key: (found.size, digest_in(found.key)) for found in listed}
    # Pruned since the listing or since the cut: the trash has it for a while.
    for digest in needed - {digest_in(key) for key in wanted}:
        wanted[f"{PLACE}{digest[:2]}/{digest}"] = (0, digest)
        wanted[f"{TRASH}{digest[:2]}/{digest}"] = (0, digest)
    total, done, kept = sum(size for size, _ in wanted.values()), 0, []
    tell("objects", 0, total)
    async with aclosing(copy_objects(site.blobs, folder, wanted)) as copied:
        async for _, found, _ in copied:
            if found is not None:
                kept.append(found)
                done += found.size
                tell("objects", done, max(total, done))
    return sorted(kept, key=lambda each: each.key), needed - {digest_in(each.key) for each in kept}


def _forget_old_tail(folder: Folder, tail: list[Chunk]) -> None:
    """Of the stream only what is behind the archive counts; an older backup's tail is in segments by now."""
    needed = {chunk.file for chunk in tail}
    for path in (folder.path / "streams" / TELEMETRY).glob("*.log"):
        if str(path.relative_to(folder.path)) not in needed:
            path.unlink()

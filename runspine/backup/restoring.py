"""Putting a backup into an empty system: bytes first, then the facts that name them.

Begun again after it was broken off, it goes on: what is there already must be a beginning of the backup.
"""

from __future__ import annotations

import json
from contextlib import aclosing

from runspine.backup.archive import MANIFESTS
from runspine.backup.index import Index
from runspine.backup.objects import digest_in
from runspine.backup.saving import Tell
from runspine.backup.shelf import OBJECTS, Shelf, fingerprint
from runspine.backup.site import Open
from runspine.backup.streams import fill, records_of
from runspine.errors import Invalid, Refused
from runspine.log.streams import ensure_streams
from runspine.log.subjects import ARTIFACTS, ATTEMPTS, RUNS, TELEMETRY

# What an orchestrator would act upon comes last.
ORDER = (ARTIFACTS, ATTEMPTS, RUNS)


async def restore(
    site: Open, shelf: Shelf, index: Index, tell: Tell, *, replicas: int = 1, telemetry_bytes: int = 4 << 30
) -> None:
    """Raises Refused when the system holds anything else, and Invalid when the backup is damaged."""
    await site.blobs.ensure_bucket()
    await ensure_streams(
        site.link, replicas=replicas, telemetry_bytes=max(telemetry_bytes, 2 * _tail_bytes(index))
    )
    await _check_archive(site, index)
    places = {stream: await _place(site, shelf, index, stream) for stream in ORDER}
    await _objects(site, shelf, index, tell)
    await _telemetry(site, shelf, index, tell)
    for stream in ORDER:
        await _fill(site, shelf, index, stream, places[stream], tell)


def _tail_bytes(index: Index) -> int:
    # Files are compressed, the stream's own compression is no better.
    return sum(chunk.size for chunk in index.of(TELEMETRY)) * 8


async def _check_archive(site: Open, index: Index) -> None:
    own = {kept.key for kept in index.objects}
    for key in await site.blobs.keys(MANIFESTS):
        if key not in own:
            raise Refused(f"the bucket has a telemetry archive of its own ({key}): restore into an empty one")


async def _place(site: Open, shelf: Shelf, index: Index, stream: str) -> int:
    """How much of a stream is there already; all of it must be the backup's. Raises Refused."""
    extent = await site.log.extent(stream)
    if extent.last == 0:
        return 0
    wanted = records_of(shelf, index, stream)
    async with aclosing(site.log.follow(stream, live=False)) as records:
        async for there in records:
            record = next(wanted, None)
            if record is None or (record.sequence, record.digest) != (there.sequence, there.digest):
                raise Refused(
                    f"{stream} {there.sequence} on {there.subject} is not of this backup: restore into an "
                    "empty system, and start its services afterwards"
                )
    return extent.last


async def _objects(site: Open, shelf: Shelf, index: Index, tell: Tell) -> None:
    total, done = sum(kept.size for kept in index.objects), 0
    tell("objects", 0, total)
    for kept in index.objects:
        with shelf.file(f"{OBJECTS}/{kept.key}") as path:
            if fingerprint(path) != (kept.size, kept.sha256):
                raise Invalid(f"{shelf.name}: {kept.key} was changed since the backup was made")
            # What is named by its digest and there is right or is mended; the rest is the backup's word.
            replace = not digest_in(kept.key)
            await site.blobs.store(path, kept.key, kept.sha256, replace=replace)
        done += kept.size
        tell("objects", done, total)


async def _telemetry(site: Open, shelf: Shelf, index: Index, tell: Tell) -> None:
    """The stream begins behind the archive, where its readers go on."""
    extent = await site.log.extent(TELEMETRY)
    if extent.last == 0 and index.tail_first > 1:
        # Purging an empty stream moves its beginning.
        body = json.dumps({"seq": index.tail_first}).encode()
        answer = json.loads((await site.link.request(f"$JS.API.STREAM.PURGE.{TELEMETRY}", body)).data)
        if "error" in answer:
            raise Refused(f"{TELEMETRY}: {answer['error'].get('description')}")
        extent = await site.log.extent(TELEMETRY)
    if extent.last + 1 < index.tail_first or (extent.commits and extent.first != index.tail_first):
        raise Refused(f"{TELEMETRY} holds other telemetry: restore into an empty system")
    await _fill(site, shelf, index, TELEMETRY, extent.last, tell)


async def _fill(site: Open, shelf: Shelf, index: Index, stream: str, after: int, tell: Tell) -> None:
    last = index.tail_last if stream == TELEMETRY else index.facts.get(stream, 0)
    tell(stream, after, last)
    async with aclosing(fill(site, stream, records_of(shelf, index, stream), after=after)) as batches:
        async for count in batches:
            after += count
            tell(stream, after, last)
    end = (await site.log.extent(stream)).last
    if end != last:
        raise Refused(f"{stream} ends at {end} and the backup at {last}: something else writes to this log")


async def check(site: Open, shelf: Shelf, index: Index, tell: Tell) -> list[str]:
    """Read all of it back and compare; what differs."""
    flaws: list[str] = []
    for stream in ORDER:
        last, wanted = index.facts.get(stream, 0), records_of(shelf, index, stream)
        if not last:
            continue
        async with aclosing(site.log.follow(stream, live=False)) as records:
            async for there in records:
                record = next(wanted, None)
                if record is None or (record.subject, record.commit) != (there.subject, there.data):
                    flaws.append(f"{stream} {there.sequence} is not as in the backup")
                    break
                tell(f"checking {stream}", there.sequence, last)
        if next(wanted, None) is not None and not flaws:
            flaws.append(f"{stream} ends before the backup does")
    return flaws

"""`runspine artifacts`: what runs left behind, and whether it is whole."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from runspine.artifact_client import ArtifactClient
from runspine.cli.artifact_words import integrity_cell, keeping_words, show_artifacts
from runspine.cli.edge import FAILED, UNREACHABLE, json_option
from runspine.cli.listing import ListingGroup
from runspine.cli.screen import is_live, note, say, say_json, table
from runspine.cli.text import age, escaped, size, when
from runspine.client import Client
from runspine.errors import Invalid
from runspine.plain import to_plain
from runspine.wire.v1 import artifacts_pb2 as wire

SHOWN_BYTES = 16 << 20


@click.group(cls=ListingGroup)
def artifacts() -> None:
    """Checkpoints, videos and other files of runs.

    `runspine artifacts RUN` lists a run's. REFERENCE is a digest or its beginning, RUN:best,
    RUN:latest, RUN:step-N, RUN:FILE, ENV/ALGO:best, ENV/ALGO:latest, or an alias.
    """


@artifacts.command("list")
@click.argument("run", required=False, default="")
@click.option("--kind", "kinds", multiple=True, help="Only this kind, such as checkpoint or video.")
@click.option("--pruned", is_flag=True, help="Also what was pruned.")
@click.option("--corrupt", is_flag=True, help="Only what is damaged.")
@json_option
def list_(run: str, kinds: tuple[str, ...], pruned: bool, corrupt: bool, as_json: bool) -> None:
    """List artifacts of a run, or of all."""
    request = wire.ListArtifactsRequest(
        run=run, kinds=kinds, with_pruned=pruned or corrupt, only_corrupt=corrupt
    )
    with Client() as client:
        found = ArtifactClient(client).list(request)
        statuses = ArtifactClient(client).retention(run=run).statuses if run and not kinds else []
    if as_json:
        say_json({"artifacts": [to_plain(artifact) for artifact in found]})
        return
    if not found:
        note("no artifacts" + (" of this run yet" if run else ""))
        return
    show_artifacts(found, with_run=not run)
    for status in statuses:
        note(", ".join(f"{kind.retained}/{kind.total} {kind.kind}s retained" for kind in status.kinds))


@artifacts.command()
@click.argument("reference")
@json_option
def show(reference: str, as_json: bool) -> None:
    """Everything about one artifact."""
    with Client() as client:
        found = ArtifactClient(client).get(reference)
    if as_json:
        say_json(to_plain(found))
        return
    artifact = found.artifact
    cell = integrity_cell(artifact)
    say(f"{cell.text}  {escaped(artifact.name)}", f"bold {cell.style}".strip())
    for label, text in (
        ("digest", artifact.digest),
        ("kind", escaped(artifact.kind)),
        ("size", f"{size(artifact.size)} ({artifact.size:,} bytes)"),
        ("run", f"{artifact.run_id}, attempt {artifact.attempt}, step {artifact.step:,}"),
        ("made", when(artifact.produced_at)),
        ("kept", keeping_words(artifact)),
        ("also in", ", ".join(found.also_in)),
        ("refused", escaped(found.obstacle)),
    ):
        if text:
            say(f"  {label:<8} {text}")


@artifacts.command()
@click.argument("reference")
@click.option("--out", type=click.Path(path_type=Path), help="File or folder; the artifact's own name here.")
@json_option
def get(reference: str, out: Path | None, as_json: bool) -> None:
    """Download an artifact and check it. Refused when it is corrupt, pruned or not verified yet."""
    with Client() as client:
        remote = ArtifactClient(client)
        artifact = remote.get(reference).artifact
        path = _target(artifact, out)
        if path.exists():
            raise Invalid(f"{path} exists already: choose another name with --out")
        with _bar(artifact, as_json) as told:
            remote.download(f"{artifact.run_id}:{artifact.digest}", path, told)
    if as_json:
        say_json({"path": str(path), "artifact": to_plain(artifact)})
    else:
        say(f"{path}  {size(artifact.size)}, verified")


@artifacts.command()
@click.argument("reference", required=False, default="")
@json_option
@click.pass_context
def verify(ctx: click.Context, reference: str, as_json: bool) -> None:
    """Read artifacts now and compare them with their digests: one, a run's, or all.

    Exit code 1 when one is damaged, 3 when S3 did not answer.
    """
    flawed: list[wire.VerifyResponse] = []
    count = unknown = 0
    with Client() as client:
        for answer in ArtifactClient(client).verify(reference):
            count += 1
            unknown += answer.unknown
            if answer.flaw:
                flawed.append(answer)
            if as_json:
                say_json(to_plain(answer))
            elif is_live(as_json):
                print(f"\r{answer.done:,} of {answer.total:,} read ", end="", file=sys.stderr, flush=True)
    if is_live(as_json):
        print("\r\033[K", end="", file=sys.stderr)
    if not as_json:
        for answer in flawed:
            word = "unknown" if answer.unknown else "corrupt"
            artifact = answer.artifact
            say(f"{word}  {artifact.digest[:12]}  {escaped(artifact.name)}: {escaped(answer.flaw)}")
        say(f"{count - len(flawed):,} of {count:,} whole")
    ctx.exit(FAILED if len(flawed) > unknown else UNREACHABLE if unknown else 0)


@artifacts.command()
@click.option("--remove", is_flag=True, help="Move the objects that no fact names to the trash.")
@json_option
def orphans(remove: bool, as_json: bool) -> None:
    """Objects in S3 that no fact names, and facts whose object is missing."""
    with Client() as client:
        remote = ArtifactClient(client)
        found = remote.orphans()
        removed = remote.remove_orphans([item.key for item in found.objects]) if remove else None
    if as_json:
        say_json({**to_plain(found), "removed": to_plain(removed) if removed is not None else None})
        return
    if not found.objects and not found.missing:
        say("none: S3 and the log agree")
        return
    if found.objects:
        rows = [[item.key, size(item.size), age(item.modified_at)] for item in found.objects]
        table(["IN S3 ONLY", "SIZE", "AGE"], rows, right=("SIZE", "AGE"))
    if found.missing:
        rows = [[artifact.run_id, artifact.digest[:12], artifact.name] for artifact in found.missing]
        table(["ON THE LOG ONLY (RUN)", "DIGEST", "NAME"], rows)
    if removed is not None:
        say(f"{len(removed.removed)} moved to the trash")
        for why in removed.left:
            say(f"left alone: {escaped(why)}")
    elif found.objects:
        note("--remove moves the objects to the trash; nothing on the log refers to them")


@artifacts.command()
@json_option
def usage(as_json: bool) -> None:
    """What the bucket and the disk hold."""
    with Client() as client:
        found = ArtifactClient(client).usage()
    if as_json:
        say_json(to_plain(found))
        return
    for heading, items in (
        ("BUCKET", found.bucket),
        ("KEPT, BY KIND", found.kinds),
        ("BY PROJECT", found.projects),
    ):
        if items:
            rows = [[item.name, f"{item.objects:,}", size(item.bytes)] for item in items]
            table([heading, "OBJECTS", "SIZE"], rows, right=("OBJECTS", "SIZE"))
            say()
    if found.shared_bytes:
        say(f"{size(found.shared_bytes)} are stored once though several runs keep them")
    if found.HasField("disk"):
        say(f"disk: {size(found.disk.free)} free of {size(found.disk.total)}")
    scrub = found.scrub
    if scrub.number:
        state = f"finished {when(scrub.finished_at)}" if scrub.finished_at >= scrub.began_at else "under way"
        read = f"{scrub.objects:,} objects read, {size(scrub.bytes)}, {scrub.corrupt} corrupt"
        say(f"scrub {scrub.number}: {state}, {read}")


def _target(artifact: wire.Artifact, out: Path | None) -> Path:
    # The name is a trainer's word: only its last part, and nothing that could leave the folder.
    own = Path(artifact.name.replace("\\", "/")).name
    own = own if own not in ("", ".", "..") and "\0" not in own else artifact.digest
    if out is None:
        return Path(own)
    return out / own if out.is_dir() else out


@contextlib.contextmanager
def _bar(artifact: wire.Artifact, as_json: bool) -> Iterator[Callable[[int], None] | None]:
    """A progress bar on a terminal when it takes a while, nothing elsewhere."""
    if not is_live(as_json) or artifact.size < SHOWN_BYTES:
        yield None
        return
    from rich.progress import Progress

    with Progress(transient=True) as progress:
        task = progress.add_task(escaped(artifact.name), total=artifact.size)
        yield lambda count: progress.advance(task, count)

"""`runspine artifacts`: list, download and verify the files of runs."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import click

from runspine.cli.errors import FAILED, UNREACHABLE, json_option
from runspine.cli.listing_group import ListingGroup
from runspine.cli.ui.artifact_text import integrity_cell, show_artifacts
from runspine.cli.ui.screen import echo, echo_json, is_live, note, table
from runspine.errors import InvalidError
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.artifacts import keeping_text, retained_parts
from runspine.text.values import age, escaped, size, when
from runspine.wire.v1 import artifacts_pb2 as wire

MIN_PROGRESS_BYTES = 16 << 20


@click.group(cls=ListingGroup)
def artifacts() -> None:
    """Checkpoints, videos and other files of runs.

    `runspine artifacts RUN` lists those of a run. REFERENCE is a digest or its prefix, RUN:best,
    RUN:latest, RUN:step-N, RUN:FILE, ENV/ALGO:best, ENV/ALGO:latest, or an alias.
    """


@artifacts.command("list")
@click.argument("run", required=False, default="")
@click.option("--kind", "kinds", multiple=True, help="Only this kind, such as checkpoint or video.")
@click.option("--pruned", is_flag=True, help="Include pruned artifacts.")
@click.option("--corrupt", is_flag=True, help="Only corrupt artifacts.")
@json_option
def list_(run: str, kinds: tuple[str, ...], pruned: bool, corrupt: bool, as_json: bool) -> None:
    """List the artifacts of a run, or of all runs."""
    request = wire.ListArtifactsRequest(
        run=run, kinds=kinds, with_pruned=pruned or corrupt, only_corrupt=corrupt
    )
    with Client() as client:
        found = ArtifactClient(client).list(request)
        statuses = ArtifactClient(client).retention(run=run).statuses if run and not kinds else []
    if as_json:
        echo_json({"artifacts": [to_plain(artifact) for artifact in found]})
        return
    if not found:
        note("no artifacts" + (" of this run yet" if run else ""))
        return
    show_artifacts(found, with_run=not run)
    for status in statuses:
        note(", ".join(f"{part} retained" for part in retained_parts(status)))


@artifacts.command()
@click.argument("reference")
@json_option
def show(reference: str, as_json: bool) -> None:
    """Show one artifact in detail."""
    with Client() as client:
        found = ArtifactClient(client).get(reference)
    if as_json:
        echo_json(to_plain(found))
        return
    artifact = found.artifact
    cell = integrity_cell(artifact)
    echo(f"{cell.text}  {escaped(artifact.name)}", f"bold {cell.style}".strip())
    for label, text in (
        ("digest", artifact.digest),
        ("kind", escaped(artifact.kind)),
        ("size", f"{size(artifact.size)} ({artifact.size:,} bytes)"),
        ("run", f"{artifact.run_id}, attempt {artifact.attempt}, step {artifact.step:,}"),
        ("made", when(artifact.produced_at)),
        ("kept", keeping_text(artifact)),
        ("also in", ", ".join(found.also_in)),
        ("refused", escaped(found.obstacle)),
    ):
        if text:
            echo(f"  {label:<8} {text}")


@artifacts.command()
@click.argument("reference")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Output file or folder.  [default: the artifact's name]"
)
@json_option
def get(reference: str, out: Path | None, as_json: bool) -> None:
    """Download and verify an artifact. Refused when it is corrupt, pruned or not verified yet."""
    with Client() as client:
        remote = ArtifactClient(client)
        artifact = remote.get(reference).artifact
        path = _target(artifact, out)
        if path.exists():
            raise InvalidError(f"{path} exists already: choose another name with --out")
        with _bar(artifact, as_json) as on_bytes:
            remote.download(f"{artifact.run_id}:{artifact.digest}", path, on_bytes)
    if as_json:
        echo_json({"path": str(path), "artifact": to_plain(artifact)})
    else:
        echo(f"{path}  {size(artifact.size)}, verified")


@artifacts.command()
@click.argument("reference", required=False, default="")
@json_option
@click.pass_context
def verify(ctx: click.Context, reference: str, as_json: bool) -> None:
    """Read artifacts from S3 and compare them with their digests: one, those of a run, or all.

    Exit code 1 when one is corrupt, 3 when S3 did not answer.
    """
    damaged: list[wire.VerifyResponse] = []
    count = unknown = 0
    with Client() as client:
        for answer in ArtifactClient(client).verify(reference):
            count += 1
            unknown += answer.unknown
            if answer.flaw:
                damaged.append(answer)
            if as_json:
                echo_json(to_plain(answer))
            elif is_live(as_json):
                print(f"\r{answer.done:,} of {answer.total:,} read ", end="", file=sys.stderr, flush=True)
    if is_live(as_json):
        print("\r\033[K", end="", file=sys.stderr)
    if not as_json:
        for answer in damaged:
            word = "unknown" if answer.unknown else "corrupt"
            artifact = answer.artifact
            echo(f"{word}  {artifact.digest[:12]}  {escaped(artifact.name)}: {escaped(answer.flaw)}")
        echo(f"{count - len(damaged):,} of {count:,} intact")
    ctx.exit(FAILED if len(damaged) > unknown else UNREACHABLE if unknown else 0)


@artifacts.command()
@click.option("--remove", is_flag=True, help="Move unreferenced objects to the trash.")
@json_option
def orphans(remove: bool, as_json: bool) -> None:
    """List objects in S3 that no fact references, and facts whose object is missing."""
    with Client() as client:
        remote = ArtifactClient(client)
        found = remote.orphans()
        removed = remote.remove_orphans([item.key for item in found.objects]) if remove else None
    if as_json:
        echo_json({**to_plain(found), "removed": to_plain(removed) if removed is not None else None})
        return
    if not found.objects and not found.missing:
        echo("no orphans: S3 matches the log")
        return
    if found.objects:
        rows = [[item.key, size(item.size), age(item.modified_at)] for item in found.objects]
        table(["IN S3 ONLY", "SIZE", "AGE"], rows, right=("SIZE", "AGE"))
    if found.missing:
        rows = [[artifact.run_id, artifact.digest[:12], artifact.name] for artifact in found.missing]
        table(["ON THE LOG ONLY (RUN)", "DIGEST", "NAME"], rows)
    if removed is not None:
        echo(f"{len(removed.removed)} moved to the trash")
        for why in removed.left:
            echo(f"skipped: {escaped(why)}")
    elif found.objects:
        note("--remove moves these unreferenced objects to the trash")


@artifacts.command()
@json_option
def usage(as_json: bool) -> None:
    """Show the storage used in the bucket and on disk."""
    with Client() as client:
        found = ArtifactClient(client).usage()
    if as_json:
        echo_json(to_plain(found))
        return
    for heading, items in (
        ("BUCKET", found.bucket),
        ("KEPT, BY KIND", found.kinds),
        ("BY PROJECT", found.projects),
    ):
        if items:
            rows = [[item.name, f"{item.objects:,}", size(item.bytes)] for item in items]
            table([heading, "OBJECTS", "SIZE"], rows, right=("OBJECTS", "SIZE"))
            echo()
    if found.shared_bytes:
        echo(f"{size(found.shared_bytes)} are shared by several runs")
    if found.HasField("disk"):
        echo(f"disk: {size(found.disk.free)} free of {size(found.disk.total)}")
    scrub = found.scrub
    if scrub.number:
        state = f"finished {when(scrub.finished_at)}" if scrub.finished_at >= scrub.began_at else "under way"
        read = f"{scrub.objects:,} objects read, {size(scrub.bytes)}, {scrub.corrupt} corrupt"
        echo(f"scrub {scrub.number}: {state}, {read}")


def _target(artifact: wire.Artifact, out: Path | None) -> Path:
    # The name comes from a trainer: use only its last part, so that it cannot leave the folder.
    own = Path(artifact.name.replace("\\", "/")).name
    own = own if own not in ("", ".", "..") and "\0" not in own else artifact.digest
    if out is None:
        return Path(own)
    return out / own if out.is_dir() else out


@contextlib.contextmanager
def _bar(artifact: wire.Artifact, as_json: bool) -> Iterator[Callable[[int], None] | None]:
    """Yield a progress callback for large files on a terminal, else None."""
    if not is_live(as_json) or artifact.size < MIN_PROGRESS_BYTES:
        yield None
        return
    from rich.progress import Progress

    with Progress(transient=True) as progress:
        task = progress.add_task(escaped(artifact.name), total=artifact.size)
        yield lambda count: progress.advance(task, count)

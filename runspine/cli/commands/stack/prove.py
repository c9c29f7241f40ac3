"""`runspine events prove` and `check-proof`: that a commit was on the log at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import click

from runspine.anchors.heads import head_problem, introduce_signer
from runspine.anchors.proof import CheckedProof, ProofInvalidError, checked, from_text, made_proof, to_text
from runspine.anchors.tree import message_leaf, missing_leaf
from runspine.anchors.witnesses import WitnessSource, leaves_in
from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.lookup.log_root import trusted_keyring
from runspine.cli.lookup.run import run_argument, run_id_of
from runspine.cli.lookup.witnesses import series_option, witness_option, witness_sources
from runspine.cli.ui.progress import progress_bar
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.errors import InvalidError, RefusedError
from runspine.eventlog.port import Recorded
from runspine.eventlog.signing import Keyring, SigningKeyError
from runspine.eventlog.subjects import FACT_STREAMS, RUNS, signer_subject
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import iso_time, to_plain
from runspine.text.facts import describe
from runspine.text.values import escaped
from runspine.wire.v1.anchors_pb2 import KeyMessage, LogProof, Witness

ENDS = ("run_completed", "run_failed", "run_cancelled")


@click.command()
@run_argument
@click.option("-o", "--out", type=click.Path(path_type=Path, dir_okay=False), help="File to write to.")
@click.option(
    "--stream",
    type=click.Choice(FACT_STREAMS, case_sensitive=False),
    default=RUNS,
    show_default=True,
    help="Stream of the commit.",
)
@click.option("--position", type=click.IntRange(1), help="Position of the commit.  [default: the run's end]")
@witness_option
@series_option
def prove(
    run: str, out: Path | None, stream: str, position: int | None, files: tuple[Path, ...], series: str
) -> int:
    """Prove that the end of RUN, or another commit of it, was on the log at a time.

    The proof is a small JSON file: the commit, its path to the earliest tree head that covers it, and keys.
    """
    sources, unread = witness_sources(files, series)
    with Client() as client:
        recorded = _chosen(client, run_id_of(client, run), stream.upper(), position)
        source, witness = _earliest(sources, recorded, unread)
        keys = _keys(client, recorded, witness)
        leaves = _leaves(client, source, witness)
        try:
            proof = made_proof(witness.head, recorded, leaves, keys)
            checked(proof, _roots(proof))
        except (ProofInvalidError, ValueError) as error:
            raise RefusedError(f"the log cannot be proved: {error}. See `runspine events verify`") from error
    text = to_text(proof)
    if out is None:
        click.echo(text, nl=False)
    else:
        out.write_text(text)
        note(f"{out}: {len(text):,} bytes; check it with: runspine events check-proof {out} --root KEY")
    return OK


def _chosen(client: Client, run_id: str, stream: str, position: int | None) -> Recorded:
    """The commit to prove. Raises InvalidError where the run has no such commit."""
    found = None
    for each in client.read_log(stream, subject=f"{stream.lower()}.{run_id}"):
        recorded = Recorded(
            each.stream, each.sequence, each.subject, each.commit, each.digest, each.stored_at
        )
        kinds = {fact.WhichOneof("kind") for fact in recorded.commit.facts}
        if recorded.sequence == position or (position is None and (stream != RUNS or kinds & {*ENDS})):
            found = recorded
    if found is None:
        what = (
            f"no commit at {position} of {stream}" if position else "not ended: name a commit with --position"
        )
        raise InvalidError(f"run {run_id} has {what}")
    return found


def _earliest(
    sources: Sequence[WitnessSource], recorded: Recorded, unread: list[str]
) -> tuple[WitnessSource, Witness]:
    """The earliest tree head that covers a commit. Raises RefusedError."""
    keyring = trusted_keyring()
    for source in sources:
        for size in source.sizes(recorded.stream):
            if size < recorded.sequence or (witness := source.load(recorded.stream, size)) is None:
                continue
            if keyring is not None:
                introduce_signer(keyring, witness.head.signer, witness.introduction)
            if witness.head.signer and not head_problem(witness.head, keyring):
                return source, witness
    raise RefusedError(
        f"position {recorded.sequence} of {recorded.stream} is not witnessed yet: wait for "
        "RUNSPINE_ANCHOR_SECONDS, and see `runspine events verify`" + "".join(f"; {why}" for why in unread)
    )


def _keys(client: Client, recorded: Recorded, witness: Witness) -> list[KeyMessage]:
    found = [KeyMessage(subject=signer_subject(witness.head.signer), commit=witness.introduction)]
    if signer := recorded.commit.signer:
        for each in client.read_log(RUNS, subject=signer_subject(signer)):
            found.append(KeyMessage(subject=each.subject, commit=each.commit))
    return found


def _leaves(client: Client, source: WitnessSource, last: Witness) -> Iterator[bytes]:
    """All leaves up to a tree head: those of its witnesses, or of the log where these have gaps."""
    size, count = last.head.size, 0
    for each in source.sizes(last.head.stream):
        witness = source.load(last.head.stream, each) if each <= size else None
        if witness is None or witness.first != count + 1:
            continue
        found = leaves_in(witness)
        yield from found
        count += len(found)
    if count < size:
        yield from _log_leaves(client, last.head.stream, count, size)


def _log_leaves(client: Client, stream: str, after: int, size: int) -> Iterator[bytes]:
    position = after
    with progress_bar("reading the log", size - after, as_json=False) as advance:
        for record in client.read_log(stream, after=after):
            while position + 1 < min(record.sequence, size + 1):
                position += 1
                yield missing_leaf(position)
            if record.sequence > size:
                return
            position = record.sequence
            yield message_leaf(position, record.subject, record.commit)
            advance(1)


@click.command("check-proof")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--root",
    "roots",
    multiple=True,
    help="Public root key in hex.  [default: RUNSPINE_LOG_ROOT, or that of the home]",
)
@json_option
def check_proof(file: Path, roots: tuple[str, ...], as_json: bool) -> int:
    """Check a proof without a stack. Ends with 1 when it does not hold."""
    try:
        text = file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(f"{file}: {getattr(error, 'strerror', None) or error}") from error
    try:
        trusted = _trusted(roots)
        found = checked(from_text(text), trusted)
    except ProofInvalidError as error:
        if as_json:
            echo_json({"valid": False, "problem": str(error)})
        else:
            echo(f"{file} proves nothing: {escaped(str(error))}", "red")
        return FAILED
    _echo_proved(found, as_json)
    return OK


def _trusted(given: Sequence[str]) -> list[bytes]:
    try:
        keyring = Keyring.parse(",".join(given)) if given else trusted_keyring()
    except SigningKeyError as error:
        raise InvalidError(f"--root: {error}") from error
    if keyring is None or not keyring.roots:
        raise InvalidError("--root: no root key is known; `runspine signers root` prints that of a stack")
    return [key.public_bytes_raw() for key in keyring.roots.values()]


def _roots(proof: LogProof) -> Iterable[bytes]:
    """The trusted roots, else those that the log itself names: a check needs one of them."""
    if trusted_keyring() is not None:
        return _trusted(())
    from runspine.eventlog.signing import roots_in

    return roots_in(Recorded(RUNS, 0, key.subject, key.commit, b"", 0) for key in proof.keys)


def _echo_proved(found: CheckedProof, as_json: bool) -> None:
    if as_json:
        echo_json(
            {
                "valid": True,
                "stream": found.stream,
                "position": found.position,
                "subject": found.subject,
                "on_the_log_at": iso_time(found.at),
                "signed_by": found.writer or None,
                "commit": to_plain(found.commit),
            }
        )
        return
    by = f"signed by the {found.writer}" if found.writer else "not signed"
    echo(f"position {found.position:,} of {found.stream} on {escaped(found.subject)}, {by}", "green")
    for fact in found.commit.facts:
        echo(f"  {iso_time(fact.at)}  {escaped(describe(fact))}")
    echo(f"was on the log at {iso_time(found.at)}")

"""`runspine signers`: the keys with which services sign their commits."""

from __future__ import annotations

import asyncio
import getpass

import click

from runspine.cli.errors import OK, json_option
from runspine.cli.lookup.log_root import root_key, trusted_keyring
from runspine.cli.ui.screen import Cell, echo, echo_json, note, table
from runspine.clock import now_micros
from runspine.errors import RefusedError, RunNotFoundError
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import iso_time

ROLES = ("orchestrator", "worker", "artifacts", "janitor", "notices")
HEADINGS = ("KEY", "ROLE", "WORKER", "EXPIRES", "STATE")
DAY_MICROS = 86_400_000_000


@click.group(invoke_without_command=True)
@json_option
@click.pass_context
def signers(ctx: click.Context, as_json: bool) -> int:
    """List the keys that the log has introduced; make and revoke them."""
    if ctx.invoked_subcommand is not None:
        return OK
    found = _listed()
    if as_json:
        echo_json({"keys": found})
        return OK
    if not found:
        note("the log has introduced no key: its commits are not signed")
        return OK
    style = {"valid": "green", "revoked": "red", "expired": "yellow"}
    rows: list[list[Cell | str]] = [
        [
            each["id"],
            each["role"],
            each["worker_id"] or "any",
            each["expires_at"] or "never",
            Cell(each["state"], style[each["state"]]),
        ]
        for each in found
    ]
    table(HEADINGS, rows)
    return OK


def _listed() -> list[dict[str, str]]:
    from runspine.eventlog import Recorded
    from runspine.eventlog.signing import Keyring, roots_in
    from runspine.eventlog.subjects import RUNS

    with Client() as client:
        records = [
            Recorded(each.stream, each.sequence, each.subject, each.commit, each.digest, each.stored_at)
            for each in client.read_log(RUNS, subject="signers.*")
        ]
    # Without a root of one's own, those that the log itself names.
    keyring = trusted_keyring() or Keyring(roots_in(records))
    for record in records:
        keyring.feed(record)
    now = now_micros()
    found = []
    for key_id, known in sorted(keyring.keys.items()):
        expires = known.introduced.expires_at
        state = "revoked" if known.revoked is not None else "expired" if 0 < expires <= now else "valid"
        found.append(
            {
                "id": key_id,
                "role": known.introduced.role,
                "worker_id": known.introduced.worker_id,
                "expires_at": iso_time(expires) if expires else "",
                "state": state,
            }
        )
    return found


@signers.command()
@json_option
def root(as_json: bool) -> int:
    """Print the public root key, for RUNSPINE_LOG_ROOT."""
    public = root_key().public.hex()
    if as_json:
        echo_json({"root": public})
    else:
        echo(public)
    return OK


@signers.command()
@click.argument("role", type=click.Choice(ROLES))
@click.option("--worker-id", default="", help="Only for this worker.")
@click.option("--days", type=click.IntRange(1), help="Days until it expires.  [default: never]")
@json_option
def make(role: str, worker_id: str, days: int | None, as_json: bool) -> int:
    """Make a key for ROLE and print it, for RUNSPINE_SIGNING_KEY. The service introduces it to the log.

    To rotate a key: make one, restart the service with it, revoke the old one.
    """
    from runspine.eventlog.signing import SigningKey, new_signing_key

    if worker_id and role != "worker":
        raise click.UsageError("--worker-id is for the role worker")
    now = now_micros()
    expires = now + days * DAY_MICROS if days else 0
    made = new_signing_key(root_key(), role, now, worker_id=worker_id, expires_at=expires)
    if as_json:
        echo_json({"id": SigningKey.parse(made).id, "role": role, "signing_key": made})
    else:
        print(made)
    return OK


@signers.command()
@click.argument("key")
@click.option("--reason", default="", help="Why, for the log.")
@json_option
def revoke(key: str, reason: str, as_json: bool) -> int:
    """Revoke KEY: what it signs from now on does not count. Needs the root key and the NATS user admin."""
    known = [each["id"] for each in _listed() if each["id"].startswith(key)]
    if len(known) != 1 or not key:
        raise RunNotFoundError(f"{key[:40]!r} is the beginning of {len(known)} keys; see `runspine signers`")
    from runspine.cli.ui.backup_report import translate_unreachable

    with translate_unreachable():
        last = asyncio.run(_revoke(known[0], reason))
    if as_json:
        echo_json({"id": known[0], "last": last})
    else:
        note(f"{known[0]} is revoked; restart its service with a new key (`runspine signers make`)")
    return OK


async def _revoke(key_id: str, reason: str) -> dict[str, int]:
    from runspine.backup.site import open_site, running_site
    from runspine.eventlog.chain import digest_of
    from runspine.eventlog.publisher import MESSAGE_ID
    from runspine.eventlog.reads import DIGEST
    from runspine.eventlog.signing import sealed_by
    from runspine.eventlog.subjects import FACT_STREAMS, signer_subject
    from runspine.wire.v1.facts_pb2 import Fact, KeyRevoked

    root = root_key()
    async with open_site(running_site()) as site:
        if site.log.authors.roots and root.id not in site.log.authors.roots:
            raise RefusedError("this root key is not one that the services trust (RUNSPINE_LOG_ROOT)")
        last = {stream: (await site.log.extent(stream)).last for stream in FACT_STREAMS}
        revoked = KeyRevoked(last=last, revoked_by=getpass.getuser(), reason=reason)
        fact = Fact(at=now_micros(), key_revoked=revoked)
        data = sealed_by(root, key_id, fact)
        headers = {MESSAGE_ID: f"revoked-{key_id}-{fact.at}", DIGEST: digest_of(data).hex()}
        await site.publisher.publish(signer_subject(key_id), data, headers)
    return last

"""The NATS and S3 of a system, with the accounts to access them."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

from runspine.embedded.credentials import Credentials, load_credentials
from runspine.embedded.home import Home, default_home
from runspine.embedded.record import running_record
from runspine.embedded.s3 import BUCKET
from runspine.errors import RefusedError, UnreachableError
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.permissions import inbox_of
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.signing import Keyring, SigningKey
from runspine.settings import ServiceSettings
from runspine.storage.artifact_blobs import ArtifactS3Blobs

ADMIN = "admin"
CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class OpenSite:
    """Open connections to a site."""

    link: NatsConnection
    publisher: Publisher
    log: JetStreamLog
    blobs: ArtifactS3Blobs


def named_site(environment: Mapping[str, str] = os.environ) -> ServiceSettings | None:
    """The site that RUNSPINE_NATS_URL and the other settings name, or None without them."""
    if not environment.get("RUNSPINE_NATS_URL"):
        return None
    settings = ServiceSettings.from_environment()
    return settings if settings.nats_user else settings.model_copy(update={"nats_user": ADMIN})


def running_site() -> ServiceSettings:
    """The site named by the environment, else the stack running in RUNSPINE_HOME. Raises RefusedError."""
    if (named := named_site()) is not None:
        return named
    home = Home.at(default_home())
    record = running_record(home)
    if record is None:
        raise RefusedError(
            f"no stack runs in {home.path}: start it with `runspine up`, or name another "
            "with RUNSPINE_NATS_URL and RUNSPINE_S3_ENDPOINT and their users"
        )
    return embedded_site(home, load_credentials(home), record.addresses)


def embedded_site(home: Home, credentials: Credentials, addresses: Mapping[str, str]) -> ServiceSettings:
    return ServiceSettings.model_validate(
        {
            "nats_url": f"nats://{addresses['nats']}",
            "nats_user": ADMIN,
            "nats_password": credentials.nats[ADMIN],
            "log_root": credentials.log_root,
            "signing_key": credentials.root_key,
            "s3_endpoint": addresses["s3"],
            "s3_access_key": credentials.s3_access_key,
            "s3_secret_key": credentials.s3_secret_key,
            "s3_bucket": BUCKET,
            "s3_sync_dir": home.s3,
        }
    )


def _log(link: NatsConnection, publisher: Publisher, settings: ServiceSettings) -> JetStreamLog:
    """The log; with the operator's root key as the signing key, subjects can be released."""
    key = settings.signing_key.get_secret_value()
    keyring = Keyring.parse(settings.log_root)
    return JetStreamLog(link, publisher, keyring=keyring, key=SigningKey.parse(key) if key else None)


@contextlib.asynccontextmanager
async def open_site(settings: ServiceSettings) -> AsyncIterator[OpenSite]:
    """Connect to NATS and S3. Raises UnreachableError when NATS does not answer or denies access."""
    account = NatsAccount(
        url=settings.nats_url,
        user=settings.nats_user,
        password=settings.nats_password.get_secret_value(),
        inbox=inbox_of(settings.nats_user) if settings.nats_user else "_INBOX",
    )
    async with contextlib.AsyncExitStack() as stack:
        link = NatsConnection(account, "backup")
        try:
            # A connection retries without end, which suits a service and not a command.
            async with asyncio.timeout(CONNECT_SECONDS):
                await stack.enter_async_context(link)
        except TimeoutError as error:
            why = link.last_error or "no answer"
            raise UnreachableError(f"NATS at {account.url} as user {account.user!r}: {why}") from error
        publisher = await stack.enter_async_context(Publisher(link))
        yield OpenSite(link, publisher, _log(link, publisher, settings), ArtifactS3Blobs(settings))

"""Create the bucket, and on MinIO the users and policies of the services: `runspine serve bootstrap`.

It can be repeated: what exists is brought up to date. On a server whose users are created elsewhere
(SeaweedFS by its identities file, AWS by IAM) RUNSPINE_S3_USERS=none creates only the bucket.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Mapping
from typing import Literal

import structlog
import urllib3
from minio.credentials.providers import StaticProvider
from minio.error import MinioAdminException
from minio.minioadmin import MinioAdmin
from pydantic import Field, SecretStr

from runspine.service.process import configure_logging
from runspine.settings import PREFIX, ServiceSettings
from runspine.storage.blobs import BlobsUnavailableError, S3Blobs
from runspine.storage.bucket_rights import SERVICES, S3Key, iam_policy

log = structlog.get_logger()

ALREADY = "PolicyChangeAlreadyApplied"


class BootstrapSettings(ServiceSettings):
    """Settings of the bootstrap."""

    s3_admin_access_key: str = Field("", description="S3 key that may make buckets and users")
    s3_admin_secret_key: SecretStr = Field(SecretStr(""), description="its secret")
    s3_users: Literal["minio", "none"] = Field("minio", description="make the services' users, or none")
    bootstrap_seconds: float = Field(120.0, gt=0, description="longest wait for the S3 server")


def service_keys(environment: Mapping[str, str]) -> dict[str, S3Key]:
    """RUNSPINE_S3_<SERVICE>_ACCESS_KEY and …_SECRET_KEY of every service; exits naming missing ones."""
    found, missing = {}, []
    for name in SERVICES:
        variables = [f"{PREFIX}S3_{name.upper()}_{part}" for part in ("ACCESS_KEY", "SECRET_KEY")]
        missing += [variable for variable in variables if not environment.get(variable)]
        found[name] = S3Key(*(environment.get(variable, "") for variable in variables))
    if missing:
        raise SystemExit(f"{', '.join(missing)}: not set; `runspine secrets` makes them")
    return found


async def make_bucket(settings: BootstrapSettings) -> None:
    """Wait for the server and create the bucket, with the administrator's key."""
    admin = {
        "s3_access_key": settings.s3_admin_access_key,
        "s3_secret_key": settings.s3_admin_secret_key,
    }
    blobs = S3Blobs(settings.model_copy(update=admin))
    give_up = time.monotonic() + settings.bootstrap_seconds
    while True:
        try:
            return await blobs.ensure_bucket()
        except BlobsUnavailableError as error:
            if time.monotonic() > give_up:
                raise SystemExit(f"no bucket after {settings.bootstrap_seconds:.0f} s: {error}") from error
            log.info("s3.waiting", trouble=str(error))
            await asyncio.sleep(1.0)


def make_users(settings: BootstrapSettings, keys: Mapping[str, S3Key]) -> None:
    """Create one user and one policy for each service on MinIO."""
    provider = StaticProvider(settings.s3_admin_access_key, settings.s3_admin_secret_key.get_secret_value())
    admin = MinioAdmin(endpoint=settings.s3_endpoint, credentials=provider, secure=settings.s3_secure)
    for name, rights in SERVICES.items():
        policy = f"runspine-{name}"
        try:
            admin.policy_add(policy, policy=iam_policy(settings.s3_bucket, rights))
            admin.user_add(keys[name].access, keys[name].secret)
            _attach(admin, policy, keys[name].access)
        except (MinioAdminException, urllib3.exceptions.HTTPError) as error:
            raise SystemExit(f"MinIO at {settings.s3_endpoint} made no user for {name}: {error}") from error
        log.info("s3.user", name=name)


def _attach(admin: MinioAdmin, policy: str, user: str) -> None:
    try:
        admin.attach_policy([policy], user=user)
    except MinioAdminException as error:
        if ALREADY not in str(error):
            raise


def main() -> int:
    settings = BootstrapSettings.from_environment()
    configure_logging("bootstrap", settings)
    keys = service_keys(os.environ) if settings.s3_users == "minio" else {}
    asyncio.run(make_bucket(settings))
    if keys:
        make_users(settings, keys)
    log.info("s3.ready", bucket=settings.s3_bucket, users=len(keys))
    return 0


if __name__ == "__main__":
    sys.exit(main())

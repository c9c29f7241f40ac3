"""SeaweedFS (`weed mini`) as a part of the stack: one process that serves S3 on loopback."""

from __future__ import annotations

import json
from pathlib import Path

from runspine.embedded.binaries import find_binary
from runspine.embedded.credentials import Credentials
from runspine.embedded.home import Home, write_private
from runspine.embedded.part import Ready, StackPart
from runspine.embedded.ports import GRPC_OFFSET, LOOPBACK, PortBook
from runspine.embedded.s3_certificates import grpc_security
from runspine.storage.bucket_rights import S3Key, seaweed_identities

BUCKET = "runspine"
SERVERS = ("s3", "filer", "master", "volume", "admin")
PROBE_KEY = ".ready"
IDENTITIES = "identities.json"


def s3_part(home: Home, credentials: Credentials, ports: PortBook, base: dict[str, str]) -> StackPart:
    """The part `s3`; writes its configuration."""
    chosen = {server: ports.choose(_port_name(server)) for server in SERVERS}
    _write_security(home, credentials.s3_signing_key)
    _write_identities(home, credentials)
    (home.logs / "s3").mkdir(mode=0o700, exist_ok=True)
    endpoint = f"{LOOPBACK}:{chosen['s3']}"
    return StackPart(
        name="s3",
        command=_command(home, chosen),
        variables={
            **base,
            # Without these two it keeps a gigabyte after some uploads. With a limit of 200 MiB an idle
            # server collects garbage for a tenth of a core, with this one for 0.3 % of one.
            "GOMEMLIMIT": "400MiB",
            "GOGC": "50",
        },
        ready=_accepts_put(home, endpoint, credentials),
        address=endpoint,
        health=f"http://{endpoint}/healthz",
        directory=home.s3,
        ports=tuple(_port_name(server) for server in SERVERS),
        # It may take 12 s after SIGTERM. Nothing writes by then, and a kill loses no acknowledged object.
        grace=5.0,
        litter=_sockets(chosen),
    )


def _command(home: Home, ports: dict[str, int]) -> list[str]:
    return [
        str(find_binary("weed")),
        # Bounds its detailed log. Errors are in s3.log, too.
        f"-logdir={home.logs / 's3'}",
        "-log_max_size_mb=10",
        "-log_max_files=3",
        "mini",
        f"-dir={home.s3}",
        f"-s3.config={home.s3 / IDENTITIES}",
        f"-ip={LOOPBACK}",
        f"-ip.bind={LOOPBACK}",
        "-master.telemetry=false",
        # The HTTP port of the filer would give any user of this machine access without S3 keys.
        "-disableHttp",
        "-webdav=false",
        "-admin.ui=false",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-s3.autoCreateBucket=false",
        *(f"-{server}.port={port}" for server, port in ports.items()),
    ]


def _write_security(home: Home, key: str) -> None:
    """weed reads security.toml from its working directory; without it the inner ports are open.

    Keys are for their HTTP, certificates for their gRPC.
    """
    sections = ("jwt.signing", "jwt.signing.read", "jwt.filer_signing", "jwt.filer_signing.read")
    text = "".join(f'[{section}]\nkey = "{key}"\n' for section in sections)
    write_private(home.s3 / "security.toml", text + grpc_security(home.s3 / "tls"))


def _write_identities(home: Home, credentials: Credentials) -> None:
    """Write the users of the services, each limited to its own prefixes of the bucket."""
    admin = S3Key(credentials.s3_access_key, credentials.s3_secret_key)
    identities = seaweed_identities(BUCKET, credentials.s3_keys, admin)
    write_private(home.s3 / IDENTITIES, json.dumps(identities, indent=1))


def _port_name(server: str) -> str:
    return "s3" if server == "s3" else f"s3-{server}"


def _sockets(ports: dict[str, int]) -> tuple[Path, ...]:
    """Sockets that weed creates in /tmp, whatever TMPDIR is, and leaves when it is killed."""
    return tuple(
        path
        for server, port in ports.items()
        for path in (
            Path(f"/tmp/seaweedfs-{server}-{port}.sock"),
            Path(f"/tmp/seaweedfs-{server}-grpc-{port + GRPC_OFFSET}.sock"),
        )
    )


def _accepts_put(home: Home, endpoint: str, credentials: Credentials) -> Ready:
    """Ready when a signed put succeeds; the port accepts connections before that."""

    async def ready() -> str:
        from runspine.settings import ServiceSettings
        from runspine.storage.blobs import BlobsUnavailableError, S3Blobs

        settings = {
            "s3_endpoint": endpoint,
            "s3_access_key": credentials.s3_access_key,
            "s3_secret_key": credentials.s3_secret_key,
            "s3_bucket": BUCKET,
            "s3_sync_dir": home.s3,
        }
        blobs = S3Blobs(ServiceSettings.model_validate(settings))
        try:
            await blobs.ensure_bucket()
            await blobs.put(PROBE_KEY, b"ready")
        except BlobsUnavailableError as error:
            return str(error)
        return ""

    return ready

"""A real S3 server (SeaweedFS) for one test session."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from runspine.settings import ServiceSettings
from runspine.storage.blobs import BlobsUnavailableError, S3Blobs
from tests.kit.servers.nats import binary, free_port


class S3Server:
    def __init__(self, directory: Path, *flags: str) -> None:
        self.directory = directory
        self.flags = flags
        self.ports = {name: free_port("s3") for name in ("s3", "filer", "master", "volume", "admin")}
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        return {
            "RUNSPINE_S3_ENDPOINT": f"127.0.0.1:{self.ports['s3']}",
            "RUNSPINE_S3_ACCESS_KEY": "testing",
            "RUNSPINE_S3_SECRET_KEY": "testing-secret",
            "RUNSPINE_S3_BUCKET": "runspine",
        }

    def settings(self) -> ServiceSettings:
        return ServiceSettings(
            s3_endpoint=f"127.0.0.1:{self.ports['s3']}",
            s3_access_key="testing",
            s3_secret_key="testing-secret",
        )

    def start(self) -> None:
        with (self.directory / "s3.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    binary("weed"),
                    "mini",
                    f"-dir={self.directory}",
                    "-ip=127.0.0.1",
                    "-ip.bind=127.0.0.1",
                    "-master.telemetry=false",
                    "-webdav=false",
                    "-admin.ui=false",
                    "-disableHttp",
                    "-s3.port.iceberg=0",
                    "-s3.port.lance=0",
                    "-s3.autoCreateBucket=false",
                    *(f"-{name}.port={port}" for name, port in self.ports.items()),
                    *self.flags,
                ],
                cwd=self.directory,
                stdout=log,
                stderr=log,
                env={
                    **os.environ,
                    "AWS_ACCESS_KEY_ID": "testing",
                    "AWS_SECRET_ACCESS_KEY": "testing-secret",
                    "GOMEMLIMIT": "400MiB",
                },
            )

    async def ready(self, deadline: float = 120.0) -> S3Blobs:
        blobs = S3Blobs(self.settings())
        until = time.monotonic() + deadline
        while True:
            try:
                await blobs.ensure_bucket()
                await blobs.put("ready", b"yes")
            except BlobsUnavailableError:
                if time.monotonic() > until:
                    raise
            else:
                return blobs

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def flip_in_volume(folder: Path, data: bytes) -> None:
    """Change one byte of an object where the server keeps it."""
    for path in folder.rglob("*.dat"):
        content = path.read_bytes()
        place = content.find(data)
        if place >= 0:
            with path.open("r+b") as file:
                file.seek(place + len(data) // 2)
                file.write(bytes([data[len(data) // 2] ^ 1]))
            return
    raise AssertionError("the object is in no volume")

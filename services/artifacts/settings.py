"""Settings of the artifacts service, read from the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from runspine.rpc.server import GrpcSettings
from runspine.settings import Address, ServiceSettings


def _checked_url(url: str) -> str:
    if url and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        raise ValueError(f"{url!r} is not a URL that begins with http:// or https://")
    return url


def _checked_file(path: Path | None) -> Path | None:
    if path is not None and (not path.parent.is_dir() or path.is_dir()):
        raise ValueError(f"{path} is not a file in a folder that exists; choose one on another disk")
    return path


class JanitorSettings(ServiceSettings):
    """Settings of the janitor, in the artifacts service or apart."""

    janitor_seconds: float = Field(300.0, gt=0, description="seconds between two rounds of the janitor")
    janitor_lease_seconds: float = Field(
        15.0, gt=0, le=3600, description="silence after which another process takes over from the janitor"
    )
    anchor_seconds: float = Field(
        60.0, gt=0, le=86_400, description="seconds between two rounds of witnesses of the log"
    )
    anchor_series: str = Field(
        "1",
        pattern=r"^[A-Za-z0-9_-]{1,64}$",
        description="name of the series of witnesses; another one after a restore that lost facts",
    )
    anchor_bucket: str = Field(
        "",
        pattern=r"^([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])?$",
        description="bucket for witnesses, best one with object lock of another owner; S3_BUCKET when empty",
    )
    anchor_lock_days: int = Field(
        0, ge=0, le=36_500, description="days for which S3 is to lock each witness against removal; 0 is not"
    )
    anchor_file: Annotated[Path | None, AfterValidator(_checked_file)] = Field(
        None, description="file that witnesses are appended to as well, best one on another disk"
    )
    anchor_url: Annotated[str, AfterValidator(_checked_url)] = Field(
        "", description="http or https URL that each signed tree head is sent to by POST as JSON"
    )
    ignore_snapshot: bool = Field(False, description="read the log from its start instead of the snapshot")


class ArtifactsSettings(GrpcSettings, JanitorSettings):
    """Settings of the artifacts service."""

    grpc_address: Address = Field("127.0.0.1:50057", description="host:port to serve gRPC on")
    s3_public_endpoint: str = Field(
        "", description="host:port of S3 as clients reach it, for links; the same as S3_ENDPOINT when empty"
    )
    index_parallel: int = Field(4, ge=1, le=64, description="objects that are read at once to be indexed")
    gone_seconds: float = Field(
        30.0, gt=0, description="how long an object must stay missing, with S3 answering, to count as gone"
    )
    scrub_mib_per_second: float = Field(8.0, gt=0, description="speed at which stored objects are re-read")
    scrub_hours: float = Field(24.0, gt=0, description="hours between the beginnings of two scrubs")
    janitor: Literal["inside", "apart"] = Field(
        "inside",
        description="whether this process may hold the janitor's term, or only `runspine serve janitor`",
    )
    orphan_grace_seconds: float = Field(
        3600.0, ge=0, description="age below which an object that no fact names is not an orphan yet"
    )
    import_mib: int = Field(4096, ge=1, description="largest checkpoint that can be imported, in MiB")
    snapshot_commits: int = Field(20_000, ge=1, description="commits after which the catalog is stored")
    snapshot_seconds: float = Field(300.0, gt=0, description="seconds after which a changed one is stored")

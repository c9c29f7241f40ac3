"""Settings that all services read from the environment. Each service adds its own in its `settings.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

PREFIX = "RUNSPINE_"


def split_address(address: str) -> tuple[str, int]:
    """Host and port of host:port, or of [::1]:port for IPv6."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{address!r} is not host:port, such as 127.0.0.1:50055")
    return host.strip("[]"), int(port)


def _checked_address(address: str) -> str:
    split_address(address)
    return address


Address = Annotated[str, AfterValidator(_checked_address)]


def _checked_addresses(text: str) -> str:
    for address in text.split(","):
        split_address(address.strip())
    return text


# Several are separated by commas.
Addresses = Annotated[str, AfterValidator(_checked_addresses)]


def _checked_seeds(text: str) -> str:
    for seed in text.split(","):
        scheme, _, address = seed.strip().partition("://")
        if text and (scheme not in ("nats", "tls") or not address):
            raise ValueError(f"{seed.strip()!r} is not nats://host:port; several are separated by commas")
    return text


NatsSeeds = Annotated[str, AfterValidator(_checked_seeds)]


class ServiceSettings(BaseSettings):
    """Settings from RUNSPINE_* variables; an invalid value stops the service, which names the variable."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="ignore")

    nats_url: NatsSeeds = Field(
        "nats://127.0.0.1:4222", description="where NATS listens; of a cluster several, separated by commas"
    )
    nats_user: str = Field("", description="NATS user of this service")
    nats_password: SecretStr = Field(SecretStr(""), description="password of that user")
    log_root: str = Field(
        "", description="public root key in hex under which the log is verified, several separated by commas"
    )
    signing_key: SecretStr = Field(
        SecretStr(""),
        description="key that signs this service's commits, from `runspine signers make`",
    )
    s3_endpoint: Address = Field("127.0.0.1:8333", description="host:port of the S3 server")
    s3_access_key: str = Field("", description="S3 access key")
    s3_secret_key: SecretStr = Field(SecretStr(""), description="S3 secret key")
    s3_bucket: str = Field("runspine", description="bucket that holds everything")
    s3_secure: bool = Field(False, description="use https for S3")
    s3_sync_dir: Path | None = Field(
        None, description="data directory of an embedded S3 server, synced after each put"
    )
    metrics_address: Address = Field("127.0.0.1:0", description="host:port for /metrics and /healthz")
    published_on: str = Field(
        "", description="host address at which a container's port is published, when only that is reachable"
    )
    log_format: Literal["json", "console"] = Field("json", description="how log lines look")
    log_level: Literal["debug", "info", "warning", "error"] = Field("info", description="least level logged")

    @classmethod
    def from_environment(cls) -> Self:
        """Read the environment; exits naming each variable that is invalid."""
        try:
            return cls()
        except ValidationError as error:
            lines = [
                f"{PREFIX}{'_'.join(map(str, wrong['loc'])).upper()}: {wrong['msg']}"
                for wrong in error.errors()
            ]
            raise SystemExit("\n".join(lines)) from None

"""Settings of the dashboard, read from environment variables."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from runspine.settings import Address, Addresses, NatsSeeds, ServiceSettings


class DashboardSettings(ServiceSettings):
    nats_url: NatsSeeds = Field(
        "", description="URLs of NATS, for live frames; optional, everything else works without it"
    )
    http_address: Address = Field("127.0.0.1:8090", description="host:port of the web page")
    address: Addresses = Field(
        "127.0.0.1:50055", description="host:port of the orchestrator; of several, separated by commas"
    )
    telemetry_address: Addresses = Field("127.0.0.1:50056", description="host:port of telemetry, likewise")
    artifacts_address: Addresses = Field("127.0.0.1:50057", description="host:port of artifacts, likewise")
    env_modules: str = Field(
        "",
        description="packages of envs that a replay may import in addition to those that are known and "
        "installed as such, comma separated",
    )
    telemetry_metrics: Address | None = Field(
        None, description="host:port of telemetry's /metrics, for the ingest lag; not shown when unset"
    )
    token: SecretStr = Field(
        SecretStr(""), description="token of scope read, with which the dashboard watches all runs"
    )
    tokens_file: Path | None = Field(
        None,
        description="JSON list of {name, sha256, scope, expires, revoked} that may log in; "
        "read again when it changes; unset: anybody, on loopback",
    )
    dashboard_dir: Path = Field(
        Path("var/dashboard"), description="folder of the users' presets and of their sessions"
    )
    session_idle_seconds: float = Field(
        8 * 3600, gt=0, description="a login ends after so long without an open page or a request"
    )
    session_seconds: float = Field(72 * 3600, gt=0, description="a login ends after so long in any case")
    http_tls_cert: Path | None = Field(None, description="certificate chain of the web page, PEM")
    http_tls_key: Path | None = Field(None, description="its private key, PEM")
    behind_proxy: bool = Field(
        False, description="a proxy terminates TLS; without it or a certificate only loopback is served"
    )

"""What the dashboard is told by its environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from runspine.settings import Address, ServiceSettings


class DashboardSettings(ServiceSettings):
    nats_url: str = Field(
        "", description="where NATS listens, for live frames; without it the page has everything else"
    )
    http_address: Address = Field("127.0.0.1:8090", description="host:port of the web page")
    address: Address = Field("127.0.0.1:50055", description="host:port of the orchestrator")
    telemetry_address: Address = Field("127.0.0.1:50056", description="host:port of telemetry")
    artifacts_address: Address = Field("127.0.0.1:50057", description="host:port of artifacts")
    telemetry_metrics: Address | None = Field(
        None, description="host:port of telemetry's /metrics, for the ingest lag; not shown when absent"
    )
    token: SecretStr = Field(
        SecretStr(""), description="token with scope read, with which the page follows all runs"
    )
    tokens_file: Path | None = Field(
        None, description="JSON list of {name, sha256, scope}: who may log in; unset on loopback: anybody"
    )
    dashboard_dir: Path = Field(Path("var/dashboard"), description="where presets of users are kept")
    http_tls_cert: Path | None = Field(None, description="certificate chain of the web page, PEM")
    http_tls_key: Path | None = Field(None, description="its private key, PEM")
    behind_proxy: bool = Field(
        False, description="a proxy in front ends TLS; without it or a certificate only loopback is served"
    )

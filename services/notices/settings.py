"""Settings of the notices service, read from the environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, SecretStr

from runspine.settings import Addresses, ServiceSettings


class NoticesSettings(ServiceSettings):
    notices_file: Path | None = Field(
        None, description="YAML file of channels and rules; without it nothing is sent"
    )
    address: Addresses = Field(
        "127.0.0.1:50055", description="host:port of the orchestrator, which carries actions out"
    )
    telemetry_address: Addresses = Field(
        "127.0.0.1:50056", description="host:port of telemetry, for rules on metrics"
    )
    token: SecretStr = Field(SecretStr(""), description="token for both, of scope run")
    notices_tries: int = Field(12, ge=1, le=1000, description="tries after which a notice is dead")
    notices_pause_seconds: float = Field(
        2.0, gt=0, le=900, description="pause after the first failed try; it doubles up to 15 minutes"
    )
    notices_timeout_seconds: float = Field(10.0, gt=0, le=300, description="longest wait for a receiver")
    notices_claim_seconds: float = Field(
        60.0,
        gt=0,
        le=3600,
        description="after which another process sends what one has claimed and not reported; "
        "more than three times the wait for a receiver",
    )
    notices_parallel: int = Field(8, ge=1, le=64, description="notices that are sent at once")
    notices_metric_seconds: float = Field(
        5.0, gt=0, description="seconds between two reads of a run's metrics"
    )

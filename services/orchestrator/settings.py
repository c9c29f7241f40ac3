"""Settings of the orchestrator, read from the environment."""

from __future__ import annotations

from pydantic import Field

from runspine.rpc.server import GrpcSettings


class OrchestratorSettings(GrpcSettings):
    stale_after: float = Field(
        15.0, gt=0, description="seconds without a heartbeat after which a run is STALE"
    )
    lost_after: float = Field(
        60.0, gt=0, description="seconds without a heartbeat after which its attempt is given up"
    )
    offer_window: int = Field(
        8, ge=1, le=1000, description="offers on the WORK stream, for each pool, beyond its free slots"
    )
    offer_ack_seconds: float = Field(10.0, gt=0, description="seconds a worker has to acknowledge an offer")
    stream_replicas: int = Field(1, ge=1, le=5, description="copies of each stream in a NATS cluster")
    telemetry_bytes: int = Field(4 << 30, gt=0, description="most bytes the TELEMETRY stream may hold")
    snapshot_commits: int = Field(20_000, ge=1, description="commits after which the board is stored")
    snapshot_seconds: float = Field(300.0, gt=0, description="seconds after which a changed board is stored")
    max_active_runs: int = Field(
        20_000, ge=0, description="runs of one token that have not ended; 0: no limit"
    )
    pools: str = Field(
        "",
        description="pools without workers yet, separated by commas; only admins submit to other names",
    )
    ignore_snapshot: bool = Field(False, description="read the log from its start instead of the snapshot")

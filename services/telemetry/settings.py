"""Settings of the telemetry service, read from the environment."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from runspine.rpc.server import GrpcSettings
from runspine.settings import Address


class TelemetrySettings(GrpcSettings):
    grpc_address: Address = Field("127.0.0.1:50056", description="host:port to serve gRPC on")
    ingest: bool = Field(True, description="archive the stream; false: only answer queries")
    ingest_partitions: int = Field(1, ge=1, le=64, description="into how many parts runs are divided")
    ingest_partition_index: int = Field(0, ge=0, description="the part this process archives")
    ingest_commit_seconds: float = Field(30.0, gt=0, description="longest time until a batch is archived")
    ingest_commit_mib: int = Field(32, ge=1, description="MiB of batches that are archived at once")
    ingest_takeover_seconds: float = Field(
        90.0, gt=0, description="seconds without a commit after which a standby process takes over"
    )
    ingest_trim_seconds: float = Field(
        10.0, ge=0, description="time between a commit and the removal of its batches from the stream"
    )
    ingest_grace_seconds: float = Field(
        600.0, ge=0, description="time for which segments that were replaced can still be read"
    )
    cache_mib: int = Field(64, ge=1, description="MiB of footers and chart levels held in memory")
    follow_mib: int = Field(8, ge=1, description="MiB held for a follower of steps before it misses some")
    sql_disk_mib: int = Field(2048, ge=1, description="MiB of segments copied to this machine for SQL")
    sql_memory_mib: int = Field(512, ge=64, description="MiB of memory for one SQL query")
    sql_slots: int = Field(2, ge=1, le=32, description="SQL queries at a time; one for each caller")
    sql_waiting: int = Field(4, ge=1, description="SQL queries of one caller that may wait")
    sql_seconds: float = Field(30.0, gt=0, description="longest time for one SQL query")

    @model_validator(mode="after")
    def _index_in_range(self) -> Self:
        if self.ingest_partition_index >= self.ingest_partitions:
            raise ValueError("RUNSPINE_INGEST_PARTITION_INDEX must be less than RUNSPINE_INGEST_PARTITIONS")
        return self

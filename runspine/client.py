"""Clients of a stack for Python programs, and the lookup of its services."""

from __future__ import annotations

from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.endpoint import Endpoint, find_endpoint
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.rpc.trainer_client import Client

__all__ = ["ArtifactClient", "Client", "Endpoint", "TelemetryClient", "find_endpoint"]

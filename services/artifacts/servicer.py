"""ArtifactService over gRPC."""

from __future__ import annotations

from runspine.services.artifacts.calls.registry import RegistryCalls
from runspine.services.artifacts.calls.retention import RetentionCalls


class ArtifactServicer(RegistryCalls, RetentionCalls):
    """The calls of the registry and of retention."""

"""ArtifactService over gRPC."""

from __future__ import annotations

from runspine.services.artifacts.calls.code import CodeCalls
from runspine.services.artifacts.calls.registry import RegistryCalls
from runspine.services.artifacts.calls.retention import RetentionCalls


class ArtifactServicer(RegistryCalls, RetentionCalls, CodeCalls):
    """The calls of the registry, of retention and of code."""

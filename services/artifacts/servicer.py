"""ArtifactService as it is served."""

from __future__ import annotations

from services.artifacts.calls.registry import RegistryCalls
from services.artifacts.calls.retention import RetentionCalls


class ArtifactServicer(RegistryCalls, RetentionCalls):
    """Each half answers its own calls."""

"""The download address of an artifact."""

from __future__ import annotations

from urllib.parse import quote

from runspine.wire.v1 import artifacts_pb2 as wire


def artifact_url(artifact: wire.Artifact) -> str:
    """The path under which the dashboard serves the file."""
    return f"/api/artifacts/{artifact.digest}/{quote(artifact.name.rpartition('/')[2] or 'file')}"

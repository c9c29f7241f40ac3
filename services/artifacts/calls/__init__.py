"""Calls of ArtifactService over gRPC."""

"""ArtifactService, call by call."""

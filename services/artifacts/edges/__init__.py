"""Objects, imports, verification and pruning of the artifacts service."""

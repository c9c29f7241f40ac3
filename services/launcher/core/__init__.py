"""Pure rules of the launcher: which runs need a worker, and which placements are no longer needed."""

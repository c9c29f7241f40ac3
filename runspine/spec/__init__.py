"""Run files: strict YAML, conversion to and from messages, grids of runs, JSON schema."""

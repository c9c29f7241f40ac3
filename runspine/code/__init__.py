"""Code of runs: snapshots of project folders as trees of content-addressed files."""

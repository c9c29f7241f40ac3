"""Resolve what a command line names: runs, checkpoints, actors and groups of runs."""

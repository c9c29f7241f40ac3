"""Trainers that tests start as scripts of a run."""

"""Policies from checkpoints and their evaluation, for every runner."""

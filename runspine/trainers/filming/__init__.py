"""Clips of episodes that a trainer or evaluator has just played, made in the background."""

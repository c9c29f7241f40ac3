"""Clips of episodes that a trainer or an evaluator has just played, made beside it."""

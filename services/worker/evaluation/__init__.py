"""Policies from checkpoints, and what they reach: the evaluator of every runner."""

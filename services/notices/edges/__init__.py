"""Loops, channels, actions, metrics."""

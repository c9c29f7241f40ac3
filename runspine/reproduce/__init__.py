"""Differences between runs, and whether one repeats another exactly."""

"""Comparison of runs: curves on one grid, statistics over seeds, sample efficiency. Pure."""

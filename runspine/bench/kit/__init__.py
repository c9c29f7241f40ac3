"""Shared parts of the benchmarks: figures, browser, machine."""

"""Benchmarks of trainers: cost of capture, learning results."""

"""Benchmarks of the control plane and of growth."""

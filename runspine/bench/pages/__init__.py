"""Benchmarks of the web page and of live frames."""

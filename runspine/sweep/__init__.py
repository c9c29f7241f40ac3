"""Hyperparameter sweeps: trials are runs, and the log holds all state of a sweep (ADR 0021)."""

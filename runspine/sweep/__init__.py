"""Hyperparameters searched for: trials are runs, and the log is all the state a sweep has (ADR 0021)."""

"""The loop that reconciles the log with an engine, and its metrics."""

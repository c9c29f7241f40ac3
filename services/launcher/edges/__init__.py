"""The loop that compares the log with what an engine runs."""

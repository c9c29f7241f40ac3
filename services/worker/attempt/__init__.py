"""One attempt from its claim to AttemptExited, and recovery of attempts after a restart."""

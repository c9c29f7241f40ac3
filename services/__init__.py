"""One process each. Services meet on the log and in S3, never in code."""

"""The page of workers, queue, runners, streams and storage."""

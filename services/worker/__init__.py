"""The worker: claims offers, runs trainers and records their attempts on the log."""

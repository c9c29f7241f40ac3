"""Artifacts of a run: discovery, intents on disk, uploads to S3, and checkpoints to resume from."""

"""The artifacts service: verifies artifacts, maintains the registry of checkpoints, prunes."""

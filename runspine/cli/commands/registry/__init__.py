"""Commands on artifacts: checkpoints, datasets, pins, retention."""

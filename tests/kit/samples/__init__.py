"""Sample data and in-process stand-ins: episodes, checkpoints, envs, batches, a reader of the SDK pipe."""

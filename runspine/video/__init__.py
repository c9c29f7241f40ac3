"""Short clips of episodes, made from what was recorded, never in the training loop."""

"""Video files: clips of episodes and live recordings, never made in the training loop."""

"""Live frames and play input between viewers and the trainer's processes."""

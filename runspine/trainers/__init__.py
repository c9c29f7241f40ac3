"""What runs in a trainer's process: built-in, offline, BDI and SB3 trainers, evaluation and play."""

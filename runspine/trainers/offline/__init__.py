"""Offline algorithms, one readable file each: behaviour cloning, TD3+BC, IQL; and the dataset recorder."""

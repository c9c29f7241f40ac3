"""Trainer for Stable-Baselines3 algorithms."""

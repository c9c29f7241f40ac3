"""Reads what trainers said back to whoever asks."""

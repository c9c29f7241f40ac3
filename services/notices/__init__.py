"""Notifies people and programs of what happens to runs, by rules."""

"""Launchers and a model of the engine on which they start workers."""

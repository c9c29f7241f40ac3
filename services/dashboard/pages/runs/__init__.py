"""The table of all runs and its actions."""

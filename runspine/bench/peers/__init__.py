"""Measurements of other tools for comparison."""

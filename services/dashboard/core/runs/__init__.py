"""Runs as the page lists them: columns, filters and sorted views. Pure."""

"""Runners that come with the worker."""

"""Virtualenvs for the packages of runs: built once for each lock, shared by runs, verified before use."""

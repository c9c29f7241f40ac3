"""The command line that asks for the same run. Pure."""

from __future__ import annotations


def submit_command(text: str) -> str:
    """For a shell, with the run file inside it."""
    mark = "RUN"
    while mark in text.split("\n"):
        mark += "_"
    end = "" if text.endswith("\n") else "\n"
    return f"runspine submit - <<'{mark}'\n{text}{end}{mark}"

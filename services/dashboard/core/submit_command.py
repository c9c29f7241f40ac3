"""The shell command that submits the same run. Pure."""

from __future__ import annotations


def submit_command(text: str) -> str:
    """`runspine submit -` with the run file as a here-document."""
    mark = "RUN"
    while mark in text.split("\n"):
        mark += "_"
    end = "" if text.endswith("\n") else "\n"
    return f"runspine submit - <<'{mark}'\n{text}{end}{mark}"

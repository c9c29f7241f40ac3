"""Histories of client calls, and the check that they could have come from one run at a time.

`calls.py` is the format, `recorder.py` writes it, `check.py` reads it: `python -m tests.histories FILE...`
"""

"""Instrumentation: runs an unmodified script and records it: `python -m runspine.launcher script.py …`.

For any script that uses Gymnasium and a SummaryWriter. The script is not edited: the modules it imports
are patched as they are loaded. Needs the standard library and numpy only, and works in a virtualenv
without Runspine (`importable.py`).
"""

"""Runs a script as it is and records what it does: `python -m runspine.launcher script.py arguments…`.

For any script that uses Gymnasium and a SummaryWriter. Nothing in the script is edited: the modules it
imports are patched as they are loaded. Standard library and numpy; works in a virtualenv that has never
heard of Runspine, because the launcher brings itself along (`importable.py`).
"""

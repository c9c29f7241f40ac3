"""A folder for PYTHONPATH: Python processes of an instrumented run import `sitecustomize` at their start."""

"""Runs of other tools, brought along: TensorBoard, W&B, MLflow, CSV.

Each becomes a run of its own with its name, its parameters and every point at its own step and time. The
client reads the source and stores it as the files of the run; a worker then reports it as a trainer would
(`python -m runspine.imports`), so that an imported run is on the log like every other.
"""

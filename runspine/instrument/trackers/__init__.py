"""Experiment trackers that programs already call: wandb, trackio, mlflow, swanlab, aim.

What a program gives to one of them is recorded in its run, without an edit. A library that is installed and
wanted works as ever, and its calls are recorded as well; in place of one that is missing or cannot work
without an account there is a stand-in, which records alone.
"""

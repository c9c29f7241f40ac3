"""Kinds of artifacts. Imports nothing, so that a trainer's process can use it."""

from __future__ import annotations

CHECKPOINT = "checkpoint"
# A policy that a script saved at its end; it can act but not resume.
MODEL = "model"
VIDEO = "video"
DATASET = "dataset"
TENSORBOARD = "tensorboard"
WANDB = "wandb"
# What a program logs to a tracker.
IMAGE = "image"
TABLE = "table"
# Plans of a BDI agent.
PLANS = "plans"

# Kinds from which a policy can be loaded.
LOADABLE = (CHECKPOINT, MODEL)

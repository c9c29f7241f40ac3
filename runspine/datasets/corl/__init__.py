"""CORL's scripts as they are: found in a checkout, run with our dataset where they expect d4rl's.

Standard library, numpy and h5py alone, so that it works in a virtualenv without Runspine.
"""

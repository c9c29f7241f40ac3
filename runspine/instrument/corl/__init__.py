"""Runs unmodified CORL scripts from a checkout, with our dataset in place of d4rl's.

Needs the standard library, numpy and h5py only, and works in a virtualenv without Runspine.
"""

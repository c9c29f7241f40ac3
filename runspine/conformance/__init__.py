"""Whether a runner keeps the promises that every client relies on, tried on a real stack of its own.

Imports nothing: `runspine.conformance.specimen` is a trainer and wants to be light.
"""

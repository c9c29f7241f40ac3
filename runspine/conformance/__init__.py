"""Conformance tests of runners, executed on a temporary stack.

Imports nothing: `runspine.conformance.specimen` is a trainer and has to start fast.
"""

"""Runspine on a seeded event loop with virtual time: one seed is one schedule, byte for byte."""

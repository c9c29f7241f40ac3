"""Version of the protocol that the worker reads."""

PROTOCOL = 1

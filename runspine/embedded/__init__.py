"""The embedded stack: NATS, S3 and the services as supervised processes on one machine, with one home."""

from runspine.embedded.stack import Stack, running_stack

__all__ = ["Stack", "running_stack"]

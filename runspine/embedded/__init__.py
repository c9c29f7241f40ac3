"""Everything on one machine: NATS, S3 and the services as supervised processes, data in one home."""

from runspine.embedded.stack import Stack, running_stack

__all__ = ["Stack", "running_stack"]

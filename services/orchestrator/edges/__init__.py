"""Loops, streams, metrics and gRPC of the orchestrator."""

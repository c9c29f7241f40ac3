"""The orchestrator: decides on runs and offers them to workers."""

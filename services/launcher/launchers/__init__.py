"""The port to an engine that places processes, and its adapters."""

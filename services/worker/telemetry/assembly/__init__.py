"""Assembly of events into numbered batches. Pure."""

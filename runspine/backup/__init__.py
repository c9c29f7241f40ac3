"""The whole system in one folder or file, and back: facts, telemetry, objects, proven by digest."""

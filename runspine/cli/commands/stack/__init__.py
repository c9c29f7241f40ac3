"""Commands on the stack itself: services, workers, log, backup, benchmarks."""

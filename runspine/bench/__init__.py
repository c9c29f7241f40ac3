"""Benchmarks of `runspine bench`. Every figure is printed with a limit measured in the same run."""

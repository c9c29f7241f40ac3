"""The runners that ship with the worker: adapters that turn a spec into a command."""

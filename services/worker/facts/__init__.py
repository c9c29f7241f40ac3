"""Facts of the worker: writing them, stop reasons and outcomes, and the journal of held attempts."""

"""The form that submits a new run."""

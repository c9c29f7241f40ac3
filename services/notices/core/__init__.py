"""Which notices are due, and their text. Pure."""

"""Takes offers, runs trainers, and says on the log what happened to them."""

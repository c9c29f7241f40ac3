"""What is decided here: which runs need a worker, and which workers nobody needs any more."""

"""Files generated from the code: written by `make proto`, compared by `make lint`."""

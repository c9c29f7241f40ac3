"""Several runs side by side: curves on one grid, statistics over seeds, sample efficiency. Pure."""

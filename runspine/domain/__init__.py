"""Rules of runs, artifacts and retention, and the defaults that services share. Pure."""

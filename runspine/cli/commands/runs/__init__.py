"""Commands that submit, control and inspect runs."""

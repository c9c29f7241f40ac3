"""The page of one run, one module per tab."""

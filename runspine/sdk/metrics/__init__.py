"""What `Run.log` makes of values: names and quantiles."""

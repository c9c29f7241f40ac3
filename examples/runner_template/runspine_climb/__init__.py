"""A runner to copy: hill climbing on the weights of a linear policy, on any env with a few numbers to see."""

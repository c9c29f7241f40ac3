"""A bandit with several arms, and an agent that estimates them."""

"""Actors that drive an env live: people, policies, chance; changed without stopping."""

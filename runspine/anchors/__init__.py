"""Witnesses of the log outside of it: Merkle trees, signed tree heads, and proofs under them."""

"""A model of offer, claim, lease and requeue for Spin, and a checker of logs by its rules."""

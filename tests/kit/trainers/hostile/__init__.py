"""A trainer that tries to get out of its sandbox: each escape by name, with what it got."""

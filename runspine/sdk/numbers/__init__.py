"""Numbers that distinguish processes, envs and episodes of a run: ranks, slots, ids of episodes."""

"""Recording of envs with several agents, by the interfaces of PettingZoo."""

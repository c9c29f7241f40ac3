"""Recording of many envs at once: columns of [steps, envs] in binary frames."""

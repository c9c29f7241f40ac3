"""The trainer as a process: reaper, cgroup, limits, sandbox, GPUs, environment and output."""

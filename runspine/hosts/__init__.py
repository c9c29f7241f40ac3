"""Machines that join a stack: invitations, the gateway that they reach, and the agent that runs on each."""

"""What the orchestrator asks often, kept up to date by each fact and heartbeat. Pure."""

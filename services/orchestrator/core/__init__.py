"""Pure rules of the orchestrator: board, offer plan, leases, reactions, validation of specs."""

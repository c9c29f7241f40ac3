"""The audit trail: who called what, from where, and whether it was refused."""

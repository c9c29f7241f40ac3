"""Play sessions: people, policies, agents and chance act in an env, changed while it runs."""

"""Play sessions: actors, fork points and specs."""

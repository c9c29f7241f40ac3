"""The form that starts play sessions, and the player."""

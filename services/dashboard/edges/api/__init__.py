"""The versioned JSON API of the client, and its change events."""

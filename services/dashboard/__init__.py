"""The web page: one more subscriber. With it stopped, nothing else changes."""

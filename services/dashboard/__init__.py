"""The dashboard: web pages for all runs. It only reads and calls services; nothing depends on it."""

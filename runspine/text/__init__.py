"""Text shared by the CLI and the dashboard: values, facts and artifacts in words."""

"""Terminal output of the commands: tables, progress, charts and reports."""

"""Pure logic of the dashboard: no I/O, no NiceGUI."""

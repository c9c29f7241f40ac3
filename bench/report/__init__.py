"""`runspine bench report`: every part measured, gathered and written as one report."""

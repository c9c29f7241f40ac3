"""`runspine bench report`: measures every part and writes one report."""

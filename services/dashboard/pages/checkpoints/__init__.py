"""The page of checkpoints and its dialogs."""

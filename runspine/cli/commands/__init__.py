"""The subcommands of `runspine`, one module each, imported on use."""

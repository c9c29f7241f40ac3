"""The line protocol of trainers, from bytes to events. Pure."""

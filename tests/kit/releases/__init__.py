"""Builds of Runspine other than this checkout: its wheel, and an older release."""

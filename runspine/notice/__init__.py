"""Notices: the shape of rules, and what becomes of each notice. Pure."""

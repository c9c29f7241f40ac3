"""The services, one process each; imported as `runspine.services`, a link to this folder (ADR 25)."""

if __name__ == "services":
    raise ImportError("import runspine.services: an installed Runspine claims no other top-level name")

from runspine.hidden_modules import hidden

# structlog imports rich for tracebacks, which services write as plain text.
with hidden("colorama", "rich"):
    import structlog as structlog

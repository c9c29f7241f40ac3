"""A run's code as one line for people. Pure."""

from __future__ import annotations

from runspine.wire.v1.spec_pb2 import Code, Packages


def code_text(code: Code) -> str:
    """Tree, commit and state; empty when a run has no code of its own."""
    if code.image:
        return "in the worker's image"
    if not code.tree:
        return ""
    origin = code.origin
    where = f", started in {code.directory}" if code.directory else ""
    text = f"{code.tree[:12]} ({code.files:,} files, {code.bytes / 1e6:,.1f} MB{where})"
    if origin.commit:
        branch = f" on {origin.branch}" if origin.branch else ""
        text += f", commit {origin.commit[:12]}{branch}{' with changes' if origin.dirty else ''}"
    return text + (f", {origin.remote}" if origin.remote else "")


def packages_text(packages: Packages) -> str:
    """Source and digest of the files; empty when a run uses the packages of its worker."""
    if not packages.tree:
        return ""
    chosen = [*packages.extras, *packages.groups]
    more = f" with {', '.join(chosen)}" if chosen else ""
    python = f", Python {packages.python}" if packages.python else ""
    return f"{packages.source or 'stored'}{more} ({packages.tree[:12]}{python})"

"""What can go wrong for somebody who uses Runspine. Light, so that the command line can import it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One thing that is wrong with an input: which field, what, and where it was written."""

    field: str
    description: str
    where: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.field, self.description) if part)


class RunspineError(Exception):
    """Something the user can act on; the message says what."""

    kind = "error"


class Invalid(RunspineError):
    """The input is wrong; `violations` names each field."""

    kind = "invalid"

    def __init__(self, message: str, violations: Sequence[Violation] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.violations = tuple(violations)

    def __str__(self) -> str:
        if not self.violations:
            return self.message
        return "\n".join([f"{self.message}:", *(f"  {violation}" for violation in self.violations)])


class Unreachable(RunspineError):
    """A service does not answer."""

    kind = "unreachable"


class NotFound(RunspineError):
    """No such run."""

    kind = "not_found"


class Refused(RunspineError):
    """The command cannot be carried out in the run's present state."""

    kind = "refused"


class Denied(RunspineError):
    """The token is missing, wrong, or may not do this."""

    kind = "denied"

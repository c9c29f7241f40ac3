"""Errors a user can act on, and the violation of one input field. Imports nothing, so the CLI starts fast."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    """One input field: its path, what is wrong and the remedy, and its place in the file."""

    field: str
    message: str
    where: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.where, self.field, self.message) if part)


class RunspineError(Exception):
    """An error the user can act on; the message states the remedy."""

    kind = "error"


class InvalidError(RunspineError):
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


class UnreachableError(RunspineError):
    """A service does not answer."""

    kind = "unreachable"


class RunNotFoundError(RunspineError):
    """No such run."""

    kind = "not_found"


class RefusedError(RunspineError):
    """The command cannot be carried out in the run's present state."""

    kind = "refused"


class DeniedError(RunspineError):
    """The token is missing, wrong, or may not do this."""

    kind = "denied"

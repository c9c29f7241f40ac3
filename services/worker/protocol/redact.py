"""Removes secret values from everything that leaves the worker. Pure."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote

# A shorter value would occur by chance in ordinary text.
MIN_SECRET_LENGTH = 4
MIN_FORM_LENGTH = 8


class Redactor:
    """Replaces known values, plain or encoded in JSON, URLs and base64, by their name."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self._names: dict[str, str] = {}
        for name, value in secrets.items():
            for form in _forms(value):
                self._names.setdefault(form, name)
        longest_first = sorted(self._names, key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._bytes = {form.encode("utf-8", "surrogateescape"): name for form, name in self._names.items()}
        # Length in bytes of the longest form: how far two chunks of a file must overlap.
        self.longest = max(map(len, self._bytes), default=0)

    def __call__(self, text: str) -> str:
        if self._pattern is None:
            return text
        return self._pattern.sub(lambda found: f"[secret {self._names[found[0]]}]", text)

    def each(self, texts: Iterable[str]) -> list[str]:
        """Redact each text."""
        return [self(text) for text in texts]

    def found_in(self, data: bytes) -> str:
        """The name of a secret whose value is in these bytes; empty when none is."""
        return next((name for form, name in self._bytes.items() if form in data), "")


def _forms(value: str) -> set[str]:
    lines = [line for line in value.splitlines() if len(line) >= MIN_FORM_LENGTH]
    forms = {value, json.dumps(value)[1:-1], quote(value, safe=""), quote(value), *lines}
    forms |= _base64(value.encode("utf-8", "surrogateescape"))
    return {form for form in forms if len(form) >= MIN_SECRET_LENGTH}


def _base64(value: bytes) -> set[str]:
    """Its forms in base64, alone or inside other text such as `user:password`."""
    forms = {base64.b64encode(value).decode().rstrip("=")}
    for before in range(3):
        shifted = base64.b64encode(bytes(before) + value).decode().rstrip("=")
        # The characters at both ends depend on the surrounding text.
        core = shifted[(before * 8 + 5) // 6 : (before + len(value)) * 8 // 6]
        if len(core) >= MIN_FORM_LENGTH:
            forms.add(core)
    return forms | {form.translate(str.maketrans("+/", "-_")) for form in forms}

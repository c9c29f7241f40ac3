"""Variables that give a play session its language model: set on the worker, passed to the session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

URL, MODEL, KEY = "RUNSPINE_LLM_URL", "RUNSPINE_LLM_MODEL", "RUNSPINE_LLM_KEY"
TIMEOUT, OPTIONS = "RUNSPINE_LLM_TIMEOUT", "RUNSPINE_LLM_OPTIONS"
VARIABLES = (URL, MODEL, KEY, TIMEOUT, OPTIONS)
DEFAULT_TIMEOUT_SECONDS = 30.0
# A shorter one would occur by chance in ordinary text, and could not be redacted.
MIN_KEY_LENGTH = 4


class LlmSettingsError(ValueError):
    """A variable is missing or wrong; the message names it."""


@dataclass(frozen=True, slots=True)
class LlmSettings:
    """An endpoint that speaks OpenAI's chat completions."""

    # Without /chat/completions, such as http://127.0.0.1:11434/v1.
    url: str
    model: str
    # Kept out of repr, and so out of logs.
    key: str = field(default="", repr=False)
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS
    # Further fields of each request, such as temperature.
    options: Mapping[str, Any] = field(default_factory=dict)


def is_offered(environment: Mapping[str, str]) -> bool:
    """Whether the environment names an endpoint."""
    return bool(environment.get(URL))


def read_llm_settings(environment: Mapping[str, str], model: str = "") -> LlmSettings:
    """The settings; `model` takes precedence over the variable. Raises LlmSettingsError."""
    url = checked_url(environment.get(URL, ""))
    model = model or environment.get(MODEL, "")
    if not model:
        raise LlmSettingsError(f"no model is given: name it as llm:MODEL, or set {MODEL} on the worker")
    try:
        seconds = float(environment.get(TIMEOUT) or DEFAULT_TIMEOUT_SECONDS)
    except ValueError as error:
        raise LlmSettingsError(f"{TIMEOUT}: {environment[TIMEOUT]!r} is not a number of seconds") from error
    options = checked_options(environment.get(OPTIONS) or "{}")
    return LlmSettings(url, model, environment.get(KEY, ""), seconds, options)


def checked_url(url: str) -> str:
    """The address without a slash at its end. Raises LlmSettingsError."""
    if not url:
        raise LlmSettingsError(f"there is no language model here: set {URL} on the worker")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise LlmSettingsError(f"{URL} is not an address such as https://api.openai.com/v1")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise LlmSettingsError(f"{URL} holds more than an address: the key belongs into {KEY}")
    return url.rstrip("/")


def checked_options(text: str) -> dict[str, Any]:
    """Further fields of a request. Raises LlmSettingsError."""
    try:
        given = json.loads(text)
    except ValueError as error:
        raise LlmSettingsError(f'{OPTIONS} is not JSON such as {{"temperature": 0}}: {error}') from error
    if not isinstance(given, dict) or given.keys() & {"model", "messages", "stream"}:
        raise LlmSettingsError(f"{OPTIONS} is no JSON object, or sets model, messages or stream")
    return given

"""A language model behind an address that speaks OpenAI's chat completions. No SDK of a vendor is used."""

from __future__ import annotations

import http.client
import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runspine.play.llm_settings import KEY, LlmSettings

Message = Mapping[str, str]

MAX_TRIES = 3
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 1.0, 10.0
# Worth another try: too many requests, and trouble of the server.
RETRYABLE = frozenset({408, 429, 500, 502, 503, 504})
MAX_ANSWER_BYTES = 1 << 20
MAX_SHOWN = 300


class EndpointError(Exception):
    """The model did not answer; the message states why and never holds the key."""


class ChatEndpoint:
    """Asks one model. Each request has a timeout, and is tried a bounded number of times."""

    def __init__(self, settings: LlmSettings, pause: Callable[[float], None] = time.sleep) -> None:
        self.settings = settings
        self._pause = pause
        # Without redirects: the key is for this address alone.
        self._opener = urllib.request.build_opener(_NoRedirect)

    def ask(self, messages: Sequence[Message]) -> str:
        """The model's answer. Raises EndpointError."""
        body = {**self.settings.options, "model": self.settings.model, "messages": list(messages)}
        wait = FIRST_PAUSE_SECONDS
        for left in range(MAX_TRIES - 1, -1, -1):
            try:
                return self._without_key(_content(self._post(json.dumps(body).encode())))
            except _RetryableError as error:
                if not left:
                    words = f"{self._where} {error} ({MAX_TRIES} tries)"
                    raise EndpointError(self._without_key(words)) from error
                self._pause(min(MAX_PAUSE_SECONDS, max(wait, error.after)))
                wait *= 2
            except EndpointError as error:
                raise EndpointError(self._without_key(f"{self._where} {error}")) from error
        raise AssertionError("unreachable: the last try returns or raises")

    def _without_key(self, text: str) -> str:
        """A server may repeat the key it was sent."""
        return text.replace(self.settings.key, f"[secret {KEY}]") if self.settings.key else text

    @property
    def _where(self) -> str:
        return f"the language model at {self.settings.url}"

    def _post(self, body: bytes) -> bytes:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self.settings.key:
            headers["Authorization"] = f"Bearer {self.settings.key}"
        request = urllib.request.Request(f"{self.settings.url}/chat/completions", body, headers)
        try:
            with self._opener.open(request, timeout=self.settings.timeout_seconds) as answer:
                data: bytes = answer.read(MAX_ANSWER_BYTES + 1)
        except urllib.error.HTTPError as error:
            raise _refusal(error) from error
        except TimeoutError as error:
            raise _RetryableError(f"has not answered for {self.settings.timeout_seconds:g} s") from error
        except (OSError, http.client.HTTPException) as error:
            # urllib wraps what the socket raises.
            reason = getattr(error, "reason", error)
            if isinstance(reason, TimeoutError):
                raise _RetryableError(f"has not answered for {self.settings.timeout_seconds:g} s") from error
            raise _RetryableError(f"cannot be reached: {reason}") from error
        if len(data) > MAX_ANSWER_BYTES:
            raise EndpointError(f"answers with more than {MAX_ANSWER_BYTES:,} bytes")
        return data


class _RetryableError(EndpointError):
    """Another try may succeed."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        return None


def _refusal(error: urllib.error.HTTPError) -> EndpointError:
    """A status that is no success, with the server's own words."""
    words = f"refuses with {error.code} {error.reason}"
    try:
        given = json.loads(error.read(MAX_ANSWER_BYTES))["error"]
        detail = str(given["message"] if isinstance(given, dict) else given)
    except (OSError, ValueError, KeyError, TypeError):
        detail = ""
    if error.code == 401:
        detail = f"the key is missing or wrong: set {KEY} on the worker"
    message = f"{words}: {detail[:MAX_SHOWN]}" if detail else words
    if error.code not in RETRYABLE:
        return EndpointError(message)
    try:
        after = float(error.headers.get("Retry-After") or 0)
    except ValueError:
        after = 0.0
    return _RetryableError(message, after)


def _content(data: bytes) -> str:
    try:
        content = json.loads(data)["choices"][0]["message"]["content"]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise EndpointError("does not answer as chat completions do: choices[0].message.content") from error
    return content if isinstance(content, str) else ""

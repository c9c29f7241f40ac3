"""Posts to webhooks and chats. Redirects are not followed: a receiver cannot send this process elsewhere."""

from __future__ import annotations

import http.client
import ssl
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

from runspine import __version__


class NotAcceptedError(Exception):
    """The receiver did not accept the notice; the message holds no secret."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any, **__: Any) -> None:
        return None


_OPENER = urllib.request.build_opener(_NoRedirect)


def post(url: str, body: bytes, headers: Mapping[str, str], timeout: float) -> None:
    """Blocks until the receiver has answered with 2xx. Raises NotAcceptedError, never with the URL in it."""
    request = urllib.request.Request(
        url,
        data=body,
        method="POST",
        headers={"Content-Type": "application/json", "User-Agent": f"runspine/{__version__}", **headers},
    )
    try:
        with _OPENER.open(request, timeout=timeout) as response:
            status = response.status
    except urllib.error.HTTPError as error:
        error.close()
        moved = "; redirects are not followed" if 300 <= error.code < 400 else ""
        raise NotAcceptedError(f"the receiver answered with {error.code}{moved}") from None
    except urllib.error.URLError as error:
        raise NotAcceptedError(f"no connection: {_reason(error.reason)}") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotAcceptedError(f"no answer: {_reason(error)}") from None
    if not 200 <= status < 300:
        raise NotAcceptedError(f"the receiver answered with {status}")


def _reason(error: object) -> str:
    """What went wrong, without text that may hold a part of the address."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate: {error.verify_message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__

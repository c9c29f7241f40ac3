"""A connection to a service: with TLS where it is asked for, and no token in the clear beyond loopback."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from runspine.errors import Invalid
from runspine.loopback import is_loopback

FLAWS = {
    "certificate has expired": "its certificate has expired; it must be renewed where the service runs",
    "certificate is not yet valid": "its certificate is not valid yet; check the clocks",
    "certificate signature failure": "nobody known here signed its certificate; set RUNSPINE_TLS_CA",
    "CERTIFICATE_VERIFY_FAILED": "nobody known here signed its certificate; set RUNSPINE_TLS_CA",
    "Hostname Verification": "its certificate is for another host name",
    "Peer name": "its certificate is for another host name",
    "WRONG_VERSION_NUMBER": "it speaks no TLS; leave RUNSPINE_TLS unset for a service in plain text",
    "andshake failed": "the TLS handshake failed; look at its certificate and at RUNSPINE_TLS_CA",
}
TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class Tls:
    """How connections are protected."""

    wanted: bool = False
    # Who must have signed the certificate; the authorities that gRPC knows when empty.
    ca: str = ""
    allow_plaintext: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Tls:
        """RUNSPINE_TLS, RUNSPINE_TLS_CA and RUNSPINE_ALLOW_PLAINTEXT."""
        ca = environment.get("RUNSPINE_TLS_CA", "")
        return cls(
            wanted=bool(ca) or environment.get("RUNSPINE_TLS", "").lower() in TRUE,
            ca=ca,
            allow_plaintext=environment.get("RUNSPINE_ALLOW_PLAINTEXT", "").lower() in TRUE,
        )


def target(address: str, tls: Tls) -> tuple[str, bool]:
    """host:port and whether to use TLS; https:// and http:// before an address decide for it."""
    for scheme, secure in (("https://", True), ("http://", False)):
        if address.startswith(scheme):
            return address.removeprefix(scheme).rstrip("/"), secure
    return address, tls.wanted


def open_channel(address: str, tls: Tls, *, options: Any, token: str = "", aio: bool = False) -> Any:
    """A channel to host:port. Raises Invalid when it would carry a token where others can read it."""
    where, secure = target(address, tls)
    make = grpc.aio if aio else grpc
    if secure:
        return make.secure_channel(where, _credentials(tls), options=options)
    host = where.rpartition(":")[0].strip("[]")
    if token and not is_loopback(host) and not tls.allow_plaintext:
        raise Invalid(
            f"the token would travel to {where} in plain text: set RUNSPINE_TLS=1 (RUNSPINE_TLS_CA=file for "
            "an authority of your own), or RUNSPINE_ALLOW_PLAINTEXT=true inside a closed network"
        )
    return make.insecure_channel(where, options=options)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    if not tls.ca:
        return grpc.ssl_channel_credentials()
    try:
        return grpc.ssl_channel_credentials(Path(tls.ca).read_bytes())
    except OSError as error:
        raise Invalid(f"RUNSPINE_TLS_CA {tls.ca} cannot be read: {error.strerror}") from error


def handshake_flaw(details: str) -> str:
    """Why TLS failed, for people; empty when it was not TLS."""
    return next((told for sign, told in FLAWS.items() if sign in details), "")

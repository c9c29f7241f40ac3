"""gRPC channels to the services: with TLS if requested, and never a token in plain text beyond loopback."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from runspine.errors import InvalidError
from runspine.rpc.loopback import is_loopback

HANDSHAKE_PROBLEMS = {
    "certificate has expired": "its certificate has expired; it must be renewed where the service runs",
    "certificate is not yet valid": "its certificate is not valid yet; check the clocks",
    "certificate signature failure": "no known authority signed its certificate; set RUNSPINE_TLS_CA",
    "CERTIFICATE_VERIFY_FAILED": "no known authority signed its certificate; set RUNSPINE_TLS_CA",
    "Hostname Verification": "its certificate is for another host name",
    "Peer name": "its certificate is for another host name",
    "WRONG_VERSION_NUMBER": "it does not use TLS; leave RUNSPINE_TLS unset for a service in plain text",
    "andshake failed": "the TLS handshake failed; look at its certificate and at RUNSPINE_TLS_CA",
}
TRUE = ("1", "true", "yes", "on")


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS options of the connections."""

    wanted: bool = False
    # File with the authority that signed the certificate; those of gRPC when empty.
    ca: str = ""
    allow_plaintext: bool = False

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> Tls:
        """Options from RUNSPINE_TLS, RUNSPINE_TLS_CA and RUNSPINE_ALLOW_PLAINTEXT."""
        ca = environment.get("RUNSPINE_TLS_CA", "")
        return cls(
            wanted=bool(ca) or environment.get("RUNSPINE_TLS", "").lower() in TRUE,
            ca=ca,
            allow_plaintext=environment.get("RUNSPINE_ALLOW_PLAINTEXT", "").lower() in TRUE,
        )


def target(address: str, tls: Tls) -> tuple[str, bool]:
    """host:port of an address and whether to use TLS, which a scheme https:// or http:// decides."""
    for scheme, secure in (("https://", True), ("http://", False)):
        if address.startswith(scheme):
            return address.removeprefix(scheme).rstrip("/"), secure
    return address, tls.wanted


def open_channel(address: str, tls: Tls, *, options: Any, token: str = "", aio: bool = False) -> Any:
    """A channel to an address. Raises InvalidError when a token would leave loopback in plain text."""
    where, secure = target(address, tls)
    make = grpc.aio if aio else grpc
    if secure:
        return make.secure_channel(where, _credentials(tls), options=options)
    host = where.rpartition(":")[0].strip("[]")
    if token and not is_loopback(host) and not tls.allow_plaintext:
        raise InvalidError(
            f"the token would be sent to {where} in plain text: set RUNSPINE_TLS=1 (RUNSPINE_TLS_CA=file for "
            "an authority of your own), or RUNSPINE_ALLOW_PLAINTEXT=true inside a closed network"
        )
    return make.insecure_channel(where, options=options)


def _credentials(tls: Tls) -> grpc.ChannelCredentials:
    if not tls.ca:
        return grpc.ssl_channel_credentials()
    try:
        return grpc.ssl_channel_credentials(Path(tls.ca).read_bytes())
    except OSError as error:
        raise InvalidError(f"RUNSPINE_TLS_CA {tls.ca} cannot be read: {error.strerror}") from error


def handshake_problem(details: str) -> str:
    """Why the TLS handshake failed; empty when the error has another cause."""
    return next((problem for sign, problem in HANDSHAKE_PROBLEMS.items() if sign in details), "")

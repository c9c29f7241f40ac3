"""The certificate of a service: read and checked once, when the service starts."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import grpc
import structlog
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

log = structlog.get_logger()

# Days before its end at which a certificate is reported for renewal.
RENEW_DAYS = 14


def server_credentials(cert: Path, key: Path) -> grpc.ServerCredentials:
    """Credentials from a certificate and its key; exits naming the file when they cannot be used."""
    chain, private = _read(cert, "RUNSPINE_TLS_CERT"), _read(key, "RUNSPINE_TLS_KEY")
    try:
        shown = x509.load_pem_x509_certificates(chain)[0]
    except (ValueError, IndexError) as error:
        raise SystemExit(f"RUNSPINE_TLS_CERT {cert} has no certificate in PEM: {error}") from error
    try:
        pair = load_pem_private_key(private, password=None)
    except (ValueError, TypeError) as error:
        raise SystemExit(f"RUNSPINE_TLS_KEY {key} has no unencrypted private key in PEM: {error}") from error
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if pair.public_key().public_bytes(*form) != shown.public_key().public_bytes(*form):
        raise SystemExit(f"RUNSPINE_TLS_KEY {key} does not belong to the certificate in {cert}")
    check_validity(shown, cert, datetime.now(UTC))
    return grpc.ssl_server_credentials([(private, chain)])


def check_validity(shown: x509.Certificate, path: Path, now: datetime) -> None:
    """Exit when a certificate has expired or is not valid yet; warn when it expires soon."""
    if now > shown.not_valid_after_utc:
        raise SystemExit(
            f"RUNSPINE_TLS_CERT {path} has expired on {shown.not_valid_after_utc:%Y-%m-%d %H:%M} UTC: "
            "no client would accept it; renew it and start again"
        )
    if now < shown.not_valid_before_utc:
        raise SystemExit(
            f"RUNSPINE_TLS_CERT {path} is not valid before {shown.not_valid_before_utc:%Y-%m-%d %H:%M} UTC: "
            "check this machine's clock"
        )
    left = (shown.not_valid_after_utc - now).days
    if left < RENEW_DAYS:
        log.warning("tls.expires_soon", path=str(path), days=left)


def _read(path: Path, variable: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise SystemExit(f"{variable} {path} cannot be read: {error.strerror}") from error

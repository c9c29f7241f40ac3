"""The stack's own certificate authority, the gateway's certificate and those of hosts."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from runspine.embedded.home import write_private

AUTHORITY, AUTHORITY_KEY = "authority.crt", "authority.key"
GATEWAY, GATEWAY_KEY = "gateway.crt", "gateway.key"
VALID = timedelta(days=3650)


def prepare_authority(folder: Path) -> None:
    """Make the authority and the gateway's certificate, unless they are there."""
    if all((folder / name).is_file() for name in (AUTHORITY, AUTHORITY_KEY, GATEWAY, GATEWAY_KEY)):
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = _name("Runspine hosts")
    authority = _builder(name, name, key.public_key()).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    write_private(folder / AUTHORITY_KEY, _private_pem(key))
    write_private(folder / AUTHORITY, _pem(authority.sign(key, hashes.SHA256())))
    certificate, private = _issue(folder, "gateway", ExtendedKeyUsageOID.SERVER_AUTH)
    write_private(folder / GATEWAY_KEY, private)
    write_private(folder / GATEWAY, certificate)


def issue_host(folder: Path, host: str) -> tuple[str, str]:
    """A certificate with which a host authenticates itself, and its key; both in PEM."""
    return _issue(folder, host, ExtendedKeyUsageOID.CLIENT_AUTH)


def fingerprint(certificate: str) -> str:
    """SHA-256 of a certificate in PEM, in hex."""
    return x509.load_pem_x509_certificate(certificate.encode()).fingerprint(hashes.SHA256()).hex()


def fingerprint_of_bytes(certificate: bytes) -> str:
    """The same of one in DER, as a TLS connection shows it."""
    return hashlib.sha256(certificate).hexdigest()


def _issue(folder: Path, name: str, usage: x509.ObjectIdentifier) -> tuple[str, str]:
    signer = load_pem_private_key((folder / AUTHORITY_KEY).read_bytes(), password=None)
    assert isinstance(signer, ec.EllipticCurvePrivateKey)
    issuer = x509.load_pem_x509_certificate((folder / AUTHORITY).read_bytes()).subject
    key = ec.generate_private_key(ec.SECP256R1())
    # A host's certificate is none of a server: no host can pass for the gateway.
    made = _builder(_name(name), issuer, key.public_key()).add_extension(
        x509.ExtendedKeyUsage([usage]), critical=False
    )
    return _pem(made.sign(signer, hashes.SHA256())), _private_pem(key)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        # Clocks of hosts differ.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + VALID)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _private_pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()

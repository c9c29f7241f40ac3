"""Certificates for the inner ports of SeaweedFS: its parts accept each other, and nobody else.

Without them any user of this machine lists and deletes objects through the gRPC ports (`weed shell`).
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from runspine.embedded.home import write_private
from runspine.embedded.ports import LOOPBACK

AUTHORITY, CERTIFICATE, KEY = "authority.crt", "node.crt", "node.key"
VALID = timedelta(days=3650)
RENEWED_BEFORE = timedelta(days=60)
# Parts of SeaweedFS that serve or call gRPC, as security.toml names them.
PARTS = ("master", "volume", "filer", "s3", "admin", "worker", "msg_broker", "msg_agent", "client")


def grpc_security(folder: Path) -> str:
    """The sections of security.toml that close the inner ports; makes the certificates if there are none."""
    if not _is_usable(folder):
        _make(folder)
    parts = "".join(
        f'[grpc.{part}]\ncert = "{folder / CERTIFICATE}"\nkey = "{folder / KEY}"\n' for part in PARTS
    )
    return f'[grpc]\nca = "{folder / AUTHORITY}"\n{parts}'


def _is_usable(folder: Path) -> bool:
    try:
        certificate = x509.load_pem_x509_certificate((folder / CERTIFICATE).read_bytes())
    except (OSError, ValueError):
        return False
    present = all((folder / name).is_file() for name in (AUTHORITY, KEY))
    return present and certificate.not_valid_after_utc > datetime.now(UTC) + RENEWED_BEFORE


def _make(folder: Path) -> None:
    """One authority for one certificate; the authority's key is not kept, so it signs no other."""
    folder.mkdir(mode=0o700, exist_ok=True)
    signer, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = _name("Runspine embedded S3")
    authority = _builder(issuer, issuer, signer).add_extension(
        x509.BasicConstraints(ca=True, path_length=0), critical=True
    )
    usages = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address(LOOPBACK))]
    )
    node = _builder(_name("runspine-s3"), issuer, key).add_extension(usages, critical=False)
    node = node.add_extension(names, critical=False)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_private(folder / AUTHORITY, _pem(authority.sign(signer, hashes.SHA256())))
    write_private(folder / KEY, private.decode())
    # Last: what is there is complete.
    write_private(folder / CERTIFICATE, _pem(node.sign(signer, hashes.SHA256())))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        # Clocks are set back now and then.
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + VALID)
    )


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()

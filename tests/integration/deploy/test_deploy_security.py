"""The listeners of a service refuse callers without access, and each refusal explains why."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runspine.errors import DeniedError, InvalidError, UnreachableError
from runspine.rpc.channel import Tls
from runspine.rpc.endpoint import Endpoint, find_endpoint
from runspine.rpc.server import GrpcSettings, serving
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import trainer_pb2 as trainer
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceServicer, add_TrainerServiceServicer_to_server
from tests.kit.environment import clean_environment
from tests.kit.orchestrator import orchestrator
from tests.kit.paths import ROOT
from tests.kit.servers.nats import NatsServer, free_port

TOKENS = {"owner": "admin", "reader": "read"}


@pytest.fixture
def tokens_file(tmp_path: Path) -> Path:
    entries = [
        {"name": name, "sha256": hashlib.sha256(f"{name}-token".encode()).hexdigest(), "scope": scope}
        for name, scope in TOKENS.items()
    ]
    path = tmp_path / "tokens.json"
    path.write_text(json.dumps(entries))
    return path


class Certificates:
    """An authority of our own, and what it has signed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test authority")])
        now = datetime.now(UTC)
        own = self._builder(self.name, self.key, now - timedelta(days=900), now + timedelta(days=900))
        own = own.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.ca = folder / "ca.pem"
        self.ca.write_bytes(own.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))

    def signed(self, name: str, since: timedelta, until: timedelta) -> tuple[Path, Path]:
        """Certificate and key for loopback, valid between these distances from now."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
        now = datetime.now(UTC)
        hosts = [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
        builder = self._builder(subject, key, now + since, now + until)
        builder = builder.add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        cert_path, key_path = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert_path.write_bytes(
            builder.sign(self.key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        key_path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        return cert_path, key_path

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, since: datetime, until: datetime
    ) -> x509.CertificateBuilder:
        return x509.CertificateBuilder(
            subject_name=subject,
            issuer_name=self.name,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=since,
            not_valid_after=until,
        )


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    folder = tmp_path / "tls"
    folder.mkdir()
    return Certificates(folder)


YEAR, DAY = timedelta(days=365), timedelta(days=1)


@pytest.fixture
def guarded(
    nats_server: NatsServer, certificates: Certificates, tokens_file: Path, tmp_path: Path
) -> Iterator[str]:
    """A real orchestrator behind TLS and tokens; its address."""
    cert, key = certificates.signed("good", -DAY, YEAR)
    listeners = {
        "RUNSPINE_TLS_CERT": str(cert),
        "RUNSPINE_TLS_KEY": str(key),
        "RUNSPINE_TOKENS_FILE": str(tokens_file),
    }
    with orchestrator(nats_server, tmp_path, **listeners) as service:
        credentials = grpc.ssl_channel_credentials(certificates.ca.read_bytes())
        with grpc.secure_channel(service.address, credentials) as channel:
            grpc.channel_ready_future(channel).result(60)
        yield service.address


def client(address: str, token: str, ca: Path | None) -> Client:
    tls = Tls(wanted=ca is not None, ca=str(ca or ""))
    return Client(Endpoint(trainer=address, token=token, patience=3.0, tls=tls))


SPEC = RunSpec(runner="script", command=["true"], env="Toy-v0", algo="none")


def test_each_stranger_is_refused_with_a_reason(guarded: str, certificates: Certificates) -> None:
    with client(guarded, "owner-token", certificates.ca) as owner:
        run = owner.submit(SPEC).run.id
        assert owner.get(run).run.id == run

    with (
        client(guarded, "", certificates.ca) as nobody,
        pytest.raises(DeniedError, match="a token is needed"),
    ):
        nobody.get(run)
    with client(guarded, "guess", certificates.ca) as guesser, pytest.raises(DeniedError, match="token"):
        guesser.get(run)
    with client(guarded, "reader-token", certificates.ca) as reader:
        assert reader.get(run).run.id == run
        with pytest.raises(DeniedError, match="'reader' may only read; Submit needs the scope 'run'"):
            reader.submit(SPEC)
        with pytest.raises(DeniedError, match="'reader' may only read; Cancel needs the scope 'run'"):
            reader.cancel(run)
    # In plain text to a port that speaks TLS: no answer, and the token has not been understood by anybody.
    with client(guarded, "owner-token", None) as plain, pytest.raises(UnreachableError):
        plain.get(run)


def test_a_certificate_of_another_authority_is_not_accepted(guarded: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Certificates(tmp_path / "other")
    with (
        client(guarded, "owner-token", other.ca) as fooled,
        pytest.raises(DeniedError, match="no known authority signed its certificate"),
    ):
        fooled.workers()


def test_https_before_the_address_means_tls(guarded: str, certificates: Certificates) -> None:
    tls = Tls(ca=str(certificates.ca))
    endpoint = Endpoint(trainer=f"https://{guarded}", token="reader-token", tls=tls)
    with Client(endpoint) as reader:
        assert list(reader.workers()) == []


class Silent(TrainerServiceServicer):
    async def ListWorkers(
        self, request: trainer.ListWorkersRequest, context: object
    ) -> trainer.ListWorkersResponse:
        return trainer.ListWorkersResponse()


async def test_a_client_refuses_a_certificate_that_has_expired(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server whose certificate expires while it runs: started here as if it were last year."""
    monkeypatch.setattr("runspine.rpc.tls.check_validity", lambda *_: None)
    cert, key = certificates.signed("old", -2 * YEAR, -DAY)
    settings = GrpcSettings(grpc_address=f"127.0.0.1:{free_port()}", tls_cert=cert, tls_key=key)
    async with serving(settings, [], lambda s: add_TrainerServiceServicer_to_server(Silent(), s)) as port:

        def ask() -> None:
            with client(f"127.0.0.1:{port}", "", certificates.ca) as one:
                one.workers()

        with pytest.raises(DeniedError, match="its certificate has expired; it must be renewed"):
            await asyncio.to_thread(ask)


def test_a_client_with_tls_gets_an_error_when_the_service_has_none(
    nats_server: NatsServer, certificates: Certificates, tmp_path: Path
) -> None:
    with orchestrator(nats_server, tmp_path) as service:
        service.stub()
        with (
            client(service.address, "", certificates.ca) as one,
            pytest.raises(DeniedError, match="it does not use TLS"),
        ):
            one.workers()


def test_a_token_is_not_sent_in_plain_text_to_another_machine() -> None:
    with pytest.raises(
        InvalidError, match=r"would be sent to 192\.0\.2\.7:50055 in plain text: set RUNSPINE_TLS"
    ):
        Client(Endpoint(trainer="192.0.2.7:50055", token="secret", tls=Tls()))
    with Client(Endpoint(trainer="192.0.2.7:50055", token="secret", tls=Tls(allow_plaintext=True))):
        pass  # nothing is asked: it was allowed to


def test_the_environment_configures_how_clients_connect(tmp_path: Path) -> None:
    found = Tls.from_environment({"RUNSPINE_TLS_CA": str(tmp_path / "none.pem")})
    assert found.wanted
    endpoint = find_endpoint({"RUNSPINE_ADDRESS": "example.org:1", "RUNSPINE_HOME": str(tmp_path)})
    with pytest.raises(InvalidError, match=r"RUNSPINE_TLS_CA .*none\.pem cannot be read"):
        Client(Endpoint(trainer=endpoint.trainer, tls=found))


def started(**variables: str) -> subprocess.CompletedProcess[str]:
    """An orchestrator that should not get as far as serving."""
    return subprocess.run(
        [sys.executable, "-m", "runspine.services.orchestrator"],
        env=clean_environment(**variables),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_service_refuses_to_stand_open(
    nats_server: NatsServer, certificates: Certificates, tokens_file: Path
) -> None:
    public = {"RUNSPINE_GRPC_ADDRESS": "0.0.0.0:0", "RUNSPINE_NATS_URL": nats_server.url}
    tokens = {"RUNSPINE_TOKENS_FILE": str(tokens_file)}
    good, good_key = certificates.signed("fine", -DAY, YEAR)
    old, old_key = certificates.signed("past", -2 * YEAR, -DAY)
    refused = {
        "set RUNSPINE_TOKENS_FILE": {},
        "set RUNSPINE_TLS_CERT and RUNSPINE_TLS_KEY": tokens,
        "RUNSPINE_PUBLISHED_ON 192.0.2.1 is reachable from outside": {
            **tokens,
            "RUNSPINE_PUBLISHED_ON": "192.0.2.1",
        },
        "belong together": {**tokens, "RUNSPINE_TLS_CERT": str(good)},
        "has expired on": {**tokens, "RUNSPINE_TLS_CERT": str(old), "RUNSPINE_TLS_KEY": str(old_key)},
        "does not belong to the certificate": {
            **tokens,
            "RUNSPINE_TLS_CERT": str(good),
            "RUNSPINE_TLS_KEY": str(old_key),
        },
        "cannot be read: No such file": {
            **tokens,
            "RUNSPINE_TLS_CERT": "/none/cert.pem",
            "RUNSPINE_TLS_KEY": str(good_key),
        },
    }
    for words, variables in refused.items():
        done = started(**public, **variables)
        assert done.returncode == 1, words
        assert words in done.stderr.splitlines()[-1], done.stderr

"""Embedded XMPP server of one run: on loopback, on free ports, with one account, ended with its parent.

`python -m runspine.trainers.bdi.xmpp_server FOLDER` reads `{"user", "password"}` from standard input, prints
`{"port"}` when it listens, and ends when standard input does. It changes what the library does by default:

- It listens on the host's public address and on 127.0.0.1:9090 as well, and lets anybody register.
- It forks workers that inherit the listening socket and hold it after a kill. Here threads do the work.
- It uses a published key. Here each run makes its own.
- On asyncio's own loop, about every third STARTTLS hangs. On uvloop none does.
"""

from __future__ import annotations

import asyncio
import binascii
import datetime
import hashlib
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn

import pyjabber.server
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from loguru import logger
from pyjabber.db.database import DB
from pyjabber.db.model import Model
from pyjabber.features.SASL.SASL import SASL
from pyjabber.server_parameters import Parameters
from pyjabber.utils.Exceptions import BadRequestException
from sqlalchemy import insert

HOST = "127.0.0.1"
ITERATIONS = 100_000
VALID_DAYS = 3650


def make_certificate(folder: Path) -> None:
    """Make a key and a certificate for this run, where the library reads them."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    (folder / f"{HOST}_key.pem").write_bytes(private)
    (folder / f"{HOST}_cert.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


async def add_account(user: str, password: str) -> None:
    """Store the one account as the library does."""
    salt = os.urandom(16)
    key = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)
    stored = f"sha256${ITERATIONS}${binascii.hexlify(salt).decode()}${binascii.hexlify(key).decode()}"
    async with await DB.connection_async() as connection, connection.begin():
        await connection.execute(insert(Model.Credentials).values(jid=user, hash_pwd=stored))


async def refuse(self: Any, element: Any) -> None:
    """Refuse every registration."""
    raise BadRequestException


def patch_library() -> None:
    """Patch what the library must not do on a shared machine."""
    pyjabber.server.setup_query_local_ip = lambda: None
    pyjabber.server.ProcessPoolExecutor = ThreadPoolExecutor
    SASL.handle_iq = refuse


async def serve(folder: Path) -> NoReturn:
    given = json.loads(await asyncio.to_thread(sys.stdin.readline))
    make_certificate(folder)
    defaults = Parameters()
    server = pyjabber.server.Server(
        Parameters(
            host=HOST,
            client_port=0,
            server_port=0,
            database_in_memory=True,
            cert_path=str(folder),
            plugins=[each for each in defaults.plugins if each != "jabber:iq:register"],
        )
    )
    server._http_server = None  # its administration page would take port 9090
    running = asyncio.create_task(server.start())  # a reference, because the loop keeps only weak ones
    await server.ready.wait()
    await add_account(given["user"], given["password"])
    print(json.dumps({"port": server._client_listener.sockets[0].getsockname()[1]}), flush=True)  # noqa: T201
    await asyncio.to_thread(sys.stdin.read)
    # Everything is in memory, and a normal exit would wait for threads of the library.
    del running
    os._exit(0)


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    logger.remove()
    logger.add(folder / "server.log", level="INFO")
    patch_library()
    uvloop.install()
    asyncio.run(serve(folder))


if __name__ == "__main__":
    main()

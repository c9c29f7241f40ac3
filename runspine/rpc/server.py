"""The gRPC server of every service. Non-loopback listeners require tokens and TLS."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import grpc
import structlog
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection
from pydantic import Field

from runspine.rpc.auth import TokenAuth
from runspine.rpc.call_records import Audit
from runspine.rpc.loopback import is_loopback
from runspine.rpc.tls import server_credentials
from runspine.settings import Address, ServiceSettings, split_address
from runspine.tasks import cancel_and_wait

log = structlog.get_logger()

MAX_MESSAGE_BYTES = 64 << 20
MAX_LOOKAHEAD_BYTES = 1 << 20


class GrpcSettings(ServiceSettings):
    """Settings of a service with a gRPC server."""

    grpc_address: Address = Field("127.0.0.1:50055", description="host:port to serve gRPC on")
    tokens_file: Path | None = Field(
        None, description="JSON list of {name, sha256, scope, expires, revoked}; read again when it changes"
    )
    tls_cert: Path | None = Field(None, description="certificate chain, PEM")
    tls_key: Path | None = Field(None, description="private key, PEM")
    max_request_mib: int = Field(16, ge=1, le=64, description="largest request, in MiB")
    max_calls_per_second: float = Field(
        1000.0, ge=0, description="calls of one token a second, twice as many at once; 0: no limit"
    )
    allow_plaintext: bool = Field(
        False, description="serve without TLS beyond loopback, inside a network that is closed by itself"
    )


def check_listener(settings: GrpcSettings) -> None:
    """Exit unless the listener is on loopback, or has tokens and TLS."""
    if (settings.tls_cert is None) != (settings.tls_key is None):
        raise SystemExit("RUNSPINE_TLS_CERT and RUNSPINE_TLS_KEY belong together: set both, or neither")
    host, _ = split_address(settings.grpc_address)
    if is_loopback(host):
        return
    if settings.tokens_file is None:
        raise SystemExit(
            f"RUNSPINE_GRPC_ADDRESS {settings.grpc_address} is reachable from outside: "
            "set RUNSPINE_TOKENS_FILE, or serve on 127.0.0.1"
        )
    if settings.tls_cert is not None or settings.allow_plaintext or is_loopback(settings.published_on):
        return
    where = (
        f"RUNSPINE_PUBLISHED_ON {settings.published_on}"
        if settings.published_on
        else f"RUNSPINE_GRPC_ADDRESS {settings.grpc_address}"
    )
    raise SystemExit(
        f"{where} is reachable from outside: set RUNSPINE_TLS_CERT "
        "and RUNSPINE_TLS_KEY, or RUNSPINE_ALLOW_PLAINTEXT=true inside a closed network"
    )


@contextlib.asynccontextmanager
async def serving(
    settings: GrpcSettings,
    services: list[str],
    register: Callable[[grpc.aio.Server], None],
    audit: Audit | None = None,
) -> AsyncIterator[int]:
    """Serve while the context is open, then give calls one second to finish. Yields the port."""
    check_listener(settings)
    auth = TokenAuth.from_file(settings.tokens_file, audit, settings.max_calls_per_second)
    server = grpc.aio.server(
        interceptors=[auth],
        options=[
            ("grpc.max_receive_message_length", settings.max_request_mib << 20),
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            # What a caller may send ahead before its call is looked at.
            ("grpc.http2.lookahead_bytes", MAX_LOOKAHEAD_BYTES),
            ("grpc.http2.bdp_probe", 0),
            ("grpc.so_reuseport", 0),
            ("grpc.keepalive_time_ms", 20_000),
            ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
            # Clients that can change to a sibling ask once a second whether this one is alive.
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 500),
            # Pings that a busy machine held back arrive together; that is no attack.
            ("grpc.http2.max_ping_strikes", 0),
            ("grpc.keepalive_permit_without_calls", 1),
        ],
    )
    register(server)
    checks = health.aio.HealthServicer()  # type: ignore[attr-defined]
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflection.enable_server_reflection([*services, health.SERVICE_NAME, reflection.SERVICE_NAME], server)
    port = _bind(server, settings)
    await server.start()
    for name in ["", *services]:
        await checks.set(name, health_pb2.HealthCheckResponse.SERVING)
    log.info("grpc.serving", address=settings.grpc_address, port=port, tls=settings.tls_cert is not None)
    watching = asyncio.create_task(auth.watch_streams())
    try:
        yield port
    finally:
        await cancel_and_wait(watching)
        await checks.enter_graceful_shutdown()
        await server.stop(grace=1.0)


def _bind(server: grpc.aio.Server, settings: GrpcSettings) -> int:
    try:
        if settings.tls_cert is None or settings.tls_key is None:
            return server.add_insecure_port(settings.grpc_address)
        return server.add_secure_port(
            settings.grpc_address, server_credentials(settings.tls_cert, settings.tls_key)
        )
    except RuntimeError as error:
        raise SystemExit(f"RUNSPINE_GRPC_ADDRESS {settings.grpc_address} cannot be bound: {error}") from error

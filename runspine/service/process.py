"""The process of a service: logging, signals, health, metrics, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import signal
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TextIO, cast

import structlog
import uvloop
from prometheus_client import REGISTRY, Gauge, exposition

from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.signing import Keyring, SigningKey
from runspine.service.log_lines import LogLines
from runspine.settings import ServiceSettings, split_address

log = structlog.get_logger()

HEALTHY = Gauge("runspine_healthy", "1 while the service can do its work", ["service"])
DISK_FREE = Gauge("runspine_disk_free_bytes", "Bytes free where the service keeps its files")
DISK_TOTAL = Gauge("runspine_disk_total_bytes", "Bytes there are in that place")


class Health:
    """Checks of whether the service can work."""

    def __init__(self, service: str) -> None:
        self.service = service
        self._checks: list[Callable[[], str]] = []

    def add(self, check: Callable[[], str]) -> None:
        """Add a check: it returns what is wrong, or an empty string."""
        self._checks.append(check)

    def troubles(self) -> list[str]:
        """What is wrong now; empty when the service is healthy."""
        found = [trouble for check in self._checks if (trouble := check())]
        HEALTHY.labels(self.service).set(0 if found else 1)
        return found


def configure_logging(service: str, settings: ServiceSettings) -> None:
    """Write structured log lines to stderr, as text or JSON."""
    level = getattr(logging, settings.log_level.upper())
    last = (
        structlog.processors.JSONRenderer()
        if settings.log_format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            last,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(cast(TextIO, LogLines(sys.stderr))),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.bind_contextvars(service=service)
    # nats-py prints tracebacks while a server is away; NatsConnection logs those errors.
    logging.getLogger("nats").setLevel(logging.CRITICAL)


def run_service(service: str, settings: ServiceSettings, main: Callable[[Health], Awaitable[None]]) -> int:
    """Run until SIGTERM or SIGINT; exit code 0 then, 1 after a crash."""
    configure_logging(service, settings)
    health = Health(service)
    # Until the service has added its own checks.
    starting = ["starting"]
    health.add(lambda: "".join(starting))
    DISK_FREE.set_function(lambda: shutil.disk_usage(".").free)
    DISK_TOTAL.set_function(lambda: shutil.disk_usage(".").total)
    with _metrics_server(settings.metrics_address, health) as port:
        log.info("service.starting", metrics_port=port)
        try:
            uvloop.run(_until_signal(main(health), starting.clear))
        except Exception:
            log.exception("service.crashed")
            return 1
    log.info("service.stopped")
    return 0


async def _until_signal(work: Awaitable[None], begun: Callable[[], None]) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    # After the task's first step.
    loop.call_soon(begun)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError):
        await task
    for number in (signal.SIGTERM, signal.SIGINT):
        # A second signal must not kill the process while it exits cleanly.
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_IGN)


@contextlib.asynccontextmanager
async def open_link(service: str, settings: ServiceSettings, health: Health) -> AsyncIterator[NatsConnection]:
    """The service's connection to NATS, with an inbox that no other user may read."""
    account = NatsAccount(
        url=settings.nats_url,
        user=settings.nats_user,
        password=settings.nats_password.get_secret_value(),
        inbox=f"_INBOX_{settings.nats_user or service}",
    )
    link = NatsConnection(account, service)
    health.add(lambda: "" if link.connected else f"NATS at {settings.nats_url} is unreachable")
    async with link:
        yield link


def open_log(link: NatsConnection, publisher: Publisher, settings: ServiceSettings) -> JetStreamLog:
    """The log, verified and signed as the settings state."""
    key = settings.signing_key.get_secret_value()
    return JetStreamLog(
        link,
        publisher,
        keyring=Keyring.parse(settings.log_root),
        key=SigningKey.parse(key) if key else None,
    )


@contextlib.contextmanager
def _metrics_server(address: str, health: Health) -> Iterator[int]:
    """Serve /metrics, /healthz (alive and able) and /livez (alive) from a thread."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                health.troubles()
                self._answer(200, exposition.generate_latest(REGISTRY), exposition.CONTENT_TYPE_LATEST)
            elif path == "/livez":
                self._answer(200, b"alive\n", "text/plain")
            elif path == "/healthz":
                troubles = health.troubles()
                body = "\n".join(troubles or ["ok"]) + "\n"
                self._answer(503 if troubles else 200, body.encode(), "text/plain; charset=utf-8")
            else:
                self._answer(404, b"try /metrics, /healthz or /livez\n", "text/plain")

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            # The client may have closed the connection, which is no error of the service.
            with contextlib.suppress(ConnectionError):
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Do not log scrapes."""

    server = ThreadingHTTPServer(split_address(address), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()

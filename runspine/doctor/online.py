"""Probes of services on the internet: W&B, the Hugging Face Hub and a package index, through the proxies set.

A probe is one HEAD request, as of `curl -I`, without a key, a token or a cookie.
"""

from __future__ import annotations

import base64
import http.client
import os
import queue
import socket
import ssl
import threading
import time
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

from runspine.doctor import Check

# Of each connection and each read; and of a whole probe, whatever a server does.
ANSWER_SECONDS = 5.0
PROBE_SECONDS = 12.0
SLOW = "try again; a proxy or firewall may hold the connection"
PORTS = {"http": 80, "https": 443}
PROXY_ASKS = 407


@dataclass(frozen=True, slots=True)
class Place:
    """A service: the variable that names another address of it, and its usual one."""

    name: str
    variable: str
    usual: str
    # Variables that name its own proxy, by scheme; before HTTPS_PROXY and HTTP_PROXY.
    proxies: Mapping[str, str]


PLACES = (
    Place(
        "W&B",
        "WANDB_BASE_URL",
        "https://api.wandb.ai",
        {"https": "WANDB_VPN_HTTPS_PROXY", "http": "WANDB_VPN_HTTP_PROXY"},
    ),
    Place("Hugging Face", "HF_ENDPOINT", "https://huggingface.co", {}),
    Place("package index", "PIP_INDEX_URL", "https://pypi.org/simple/", {}),
)


class ProbeError(Exception):
    """Why a service was not reached, and the remedy."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.remedy = remedy


def examine(environment: Mapping[str, str] | None = None) -> Iterator[Check]:
    """One check for each service, in order; all are probed at the same time."""
    variables = os.environ if environment is None else environment
    answers: list[queue.Queue[Check]] = []
    for place in PLACES:
        answer: queue.Queue[Check] = queue.Queue(1)
        answers.append(answer)
        threading.Thread(target=lambda p=place, a=answer: a.put(probe(p, variables)), daemon=True).start()
    deadline = time.monotonic() + PROBE_SECONDS
    for place, answer in zip(PLACES, answers, strict=True):
        try:
            yield answer.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            yield _failed(place, ProbeError(f"no whole answer within {PROBE_SECONDS:.0f} s", SLOW))


def probe(place: Place, variables: Mapping[str, str]) -> Check:
    """Ask one service for the headers of its page."""
    try:
        address = _parsed(place.variable, variables.get(place.variable) or place.usual)
        proxy_name, proxy = _proxy(place, address, variables)
        began = time.monotonic()
        status = _status(address, proxy, proxy_name)
    except ProbeError as error:
        return _failed(place, error)
    way = f" through the proxy {_where(proxy)} ({proxy_name})" if proxy else ""
    took = f"{(time.monotonic() - began) * 1000:.0f} ms"
    if status == PROXY_ASKS and proxy:
        return _failed(place, ProbeError(*_asks(proxy, proxy_name)))
    if status >= 500:
        summary = f"{_where(address)} answers {status}{way} in {took}"
        return Check(place.name, "warn", summary, "the service or the proxy has a problem; try again later")
    return Check(place.name, "ok", f"{_where(address)} answers {status}{way} in {took}")


def _failed(place: Place, error: ProbeError) -> Check:
    return Check(place.name, "fail", str(error), error.remedy)


def _parsed(variable: str, text: str) -> SplitResult:
    """The parts of an address. A user and password in it are not used, and not shown."""
    try:
        address = urlsplit(text)
        usable = address.scheme in PORTS and bool(address.hostname) and (address.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or not text.isprintable() or " " in text:
        example = "such as https://host or http://host:port"
        raise ProbeError(f"{variable} is not an address", f"set {variable} to an address, {example}")
    return address


def _proxy(
    place: Place, address: SplitResult, variables: Mapping[str, str]
) -> tuple[str, SplitResult | None]:
    """The proxy for an address and the variable that names it; none for hosts in NO_PROXY."""
    excepted = {"no": variables.get("NO_PROXY") or variables.get("no_proxy") or ""}
    if urllib.request.proxy_bypass_environment(address.hostname or "", excepted):  # type: ignore[attr-defined]
        return "", None
    general = f"{address.scheme.upper()}_PROXY"
    for name in (place.proxies.get(address.scheme, general), general, general.lower()):
        if given := variables.get(name):
            if given.startswith("socks"):
                raise ProbeError(f"{name} is a SOCKS proxy, which is not probed", "use curl -I through it")
            return name, _parsed(name, given if "://" in given else f"http://{given}")
    return "", None


def _status(address: SplitResult, proxy: SplitResult | None, proxy_name: str) -> int:
    """The status of the answer. Raises ProbeError."""
    connection = _connection(address, proxy)
    host = address.hostname or ""
    target = address.path or "/"
    headers = {"User-Agent": "runspine-doctor", "Accept": "*/*"}
    if proxy and address.scheme == "http":
        target = f"http://{_where(address)}{target}"
        headers |= _authorization(proxy)
    try:
        connection.request("HEAD", target, headers=headers)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        raise _explained(error, host, proxy, proxy_name) from error
    finally:
        connection.close()


def _connection(address: SplitResult, proxy: SplitResult | None) -> http.client.HTTPConnection:
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    nearest = proxy or address
    connection = kind(nearest.hostname or "", nearest.port or PORTS[nearest.scheme], timeout=ANSWER_SECONDS)
    if proxy and address.scheme == "https":
        port = address.port or PORTS["https"]
        connection.set_tunnel(address.hostname or "", port, headers=_authorization(proxy))
    return connection


def _authorization(proxy: SplitResult) -> dict[str, str]:
    """The credentials that the proxy's own address holds; no others are sent anywhere."""
    if not proxy.username:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + base64.b64encode(pair.encode()).decode()}


def _explained(error: Exception, host: str, proxy: SplitResult | None, proxy_name: str) -> ProbeError:
    """Plain words for what went wrong, and where."""
    nearest = f"the proxy {_where(proxy)} ({proxy_name})" if proxy else host
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = "install the certificate of your proxy or server, and name it with SSL_CERT_FILE"
        return ProbeError(f"the certificate of {host} is not trusted: {error.verify_message}", remedy)
    if proxy and str(PROXY_ASKS) in str(error):
        return ProbeError(*_asks(proxy, proxy_name))
    if proxy and "Tunnel connection failed" in str(error):
        return ProbeError(f"{nearest} does not connect to {host}: {error}", "ask who runs the proxy")
    if isinstance(error, socket.gaierror):
        return ProbeError(f"the name of {nearest} is not known", "check the network, the name and DNS")
    if isinstance(error, TimeoutError):
        return ProbeError(f"{nearest} does not answer within {ANSWER_SECONDS:.0f} s", SLOW)
    if isinstance(error, ConnectionRefusedError):
        return ProbeError(f"{nearest} refuses connections", "check the address and port")
    return ProbeError(f"{nearest}: {str(error) or type(error).__name__}", "check the network and the proxy")


def _asks(proxy: SplitResult, name: str) -> tuple[str, str]:
    return (
        f"the proxy {_where(proxy)} ({name}) asks for a user and password",
        f"put them into {name}: http://user:password@host:port",
    )


def _where(address: SplitResult | None) -> str:
    """Host and port, without a user and password."""
    if address is None:
        return ""
    host = f"[{address.hostname}]" if ":" in (address.hostname or "") else address.hostname or ""
    return f"{host}:{address.port}" if address.port else host

"""Proxies of a trainer (WANDB_VPN_HTTP_PROXY, WANDB_VPN_HTTPS_PROXY), for runs that ask for them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from runspine.runners import NotReadyError
from runspine.services.worker.protocol.redact import MIN_SECRET_LENGTH
from runspine.wire.v1.spec_pb2 import RunSpec

# The variables that name a proxy, and those that programs read.
PROXIES = {"WANDB_VPN_HTTP_PROXY": "HTTP_PROXY", "WANDB_VPN_HTTPS_PROXY": "HTTPS_PROXY"}
# Telemetry and live frames do not pass a proxy, and neither do servers of the trainer's own.
NOT_PROXIED = "localhost,127.0.0.1,::1"
SCHEMES = ("http", "https", "socks5", "socks5h")


def proxy_variables(spec: RunSpec, environment: Mapping[str, str], *, every_run: bool) -> dict[str, str]:
    """Variables that send a trainer through its proxies; none for a run that has none. Raises NotReadyError.

    A run asks for a proxy of its own under `variables`, for the worker's under `secrets`; with `every_run` it
    has the worker's, unless its variable of that name is empty.
    """
    found: dict[str, str] = {}
    for name, variable in PROXIES.items():
        if address := _address(name, spec, environment, every_run=every_run):
            _check(name, address)
            found |= {variable: address, variable.lower(): address}
    return {**found, "NO_PROXY": NOT_PROXIED, "no_proxy": NOT_PROXIED} if found else {}


def proxy_secrets(environment: Mapping[str, str]) -> dict[str, str]:
    """Proxies of the worker with a password in their address: it is kept out of every log."""
    addresses = {name: environment.get(name, "") for name in PROXIES}
    return {name: url for name, url in addresses.items() if "@" in url and len(url) >= MIN_SECRET_LENGTH}


def _address(name: str, spec: RunSpec, environment: Mapping[str, str], *, every_run: bool) -> str:
    if name in spec.variables:
        return spec.variables[name]
    return environment.get(name, "") if every_run or name in spec.secrets else ""


def _check(name: str, address: str) -> None:
    try:
        parts = urlsplit(address)
        usable = parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable = False
    if not usable or not address.isprintable():
        raise NotReadyError(f"{name} is not the address of a proxy, such as http://proxy.example.org:3128")

"""The endpoint of a client: from its arguments, the environment, or the stack of a home."""

from __future__ import annotations

import os
from dataclasses import replace

from runspine.api.filters import invalid
from runspine.rpc.channel import Tls
from runspine.rpc.endpoint import Endpoint, find_endpoint

PATIENCE_SECONDS = 5.0


def endpoint_of(
    address: str | None, token: str | None, telemetry: str | None, artifacts: str | None, *,
    home: str | os.PathLike[str] | None = None, tls: bool | str | None = None,
) -> Endpoint:  # fmt: skip
    """The endpoint that these arguments name; what is left out comes from the environment or the home.

    A token that was found in a home is sent to its own stack alone: an address in the arguments needs a token
    in the arguments or in RUNSPINE_TOKEN.
    """
    environment = dict(os.environ)
    if home is not None:
        for name in ("RUNSPINE_ADDRESS", "RUNSPINE_TELEMETRY_ADDRESS", "RUNSPINE_ARTIFACTS_ADDRESS"):
            environment.pop(name, None)
        environment["RUNSPINE_HOME"] = os.fspath(home)
    given = {
        "ADDRESS": address,
        "TOKEN": token,
        "TELEMETRY_ADDRESS": telemetry,
        "ARTIFACTS_ADDRESS": artifacts,
    }
    for name, value in given.items():
        if value is not None:
            if not isinstance(value, str):
                raise invalid(name.lower(), f"expected text, got {value!r:.60}")
            environment[f"RUNSPINE_{name}"] = value
    endpoint = find_endpoint(environment)
    if tls is not None:
        chosen = Tls(wanted=bool(tls), ca=os.fspath(tls) if isinstance(tls, str) else "")
        endpoint = replace(endpoint, tls=chosen)
    # A program waits for a service that is restarting.
    return replace(endpoint, patience=max(endpoint.patience, PATIENCE_SECONDS))

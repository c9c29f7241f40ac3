"""`python -m runspine.healthcheck`: exits with 0 when the service of this container is healthy, else with 1.

For images without curl. It imports only the standard library, so that it starts fast.
"""

from __future__ import annotations

import http.client
import os
import sys

VARIABLE = "RUNSPINE_METRICS_ADDRESS"
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


def check(address: str, path: str = "/healthz", timeout: float = 4.0) -> tuple[bool, str]:
    """Whether a service replies 200, and the text of its reply."""
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    if not port.isdigit() or int(port) == 0:
        return False, f"{VARIABLE} is {address!r}: give it a fixed port, such as 0.0.0.0:9100"
    connection = http.client.HTTPConnection(EVERYWHERE.get(host, host), int(port), timeout=timeout)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        return answer.status == http.client.OK, answer.read(4096).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return False, f"nothing answers at {address}: {error}"
    finally:
        connection.close()


def main() -> int:
    healthy, report = check(os.environ.get(VARIABLE, "127.0.0.1:9100"))
    sys.stdout.write(f"{report}\n")
    return 0 if healthy else 1


if __name__ == "__main__":
    sys.exit(main())

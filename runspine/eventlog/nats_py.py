"""nats-py, imported without aiohttp.

It imports aiohttp where it is installed, for WebSockets alone, which are not used here: a fifth of the time
in which a service starts.
"""

from __future__ import annotations

import sys
from typing import Any

_modules: dict[str, Any] = sys.modules
_hidden = "aiohttp" not in _modules
if _hidden:
    _modules["aiohttp"] = None
try:
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.errors import Error as NatsError
finally:
    if _hidden:
        del _modules["aiohttp"]

__all__ = ["Client", "Msg", "NatsError"]

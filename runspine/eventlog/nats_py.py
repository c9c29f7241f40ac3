"""nats-py, imported without aiohttp.

It imports aiohttp where it is installed, for WebSockets alone, which are not used here: a fifth of the time
in which a service starts.
"""

from __future__ import annotations

from runspine.hidden_modules import hidden

with hidden("aiohttp"):
    from nats.aio.client import Client
    from nats.aio.msg import Msg
    from nats.errors import Error as NatsError

__all__ = ["Client", "Msg", "NatsError"]

"""Open pages without a browser: what the pages of ten people ask and hear, and nothing that draws.

A process of its own, `python -m bench.page_viewers …`, that stands for other machines: it speaks the page's
protocol (socket.io over a web socket, figures of charts over HTTP) and throws away what it is told.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import aiohttp

from services.dashboard.edges.login import COOKIE

ACK_SECONDS = 3.0
WIDTH = 600
# Charts that are seen at once in a window of usual size; every other page is scrolled to the end.
SEEN = 8
CLIENT = re.compile(r"client_id\W+([0-9a-f-]{36})")


class Viewer:
    """One page that is open."""

    def __init__(self, session: aiohttp.ClientSession, address: str, path: str, at_end: bool) -> None:
        self._session = session
        self._address = address
        self._path = path
        self._at_end = at_end
        # Series by the number of the state that is held of each, in the order of the charts.
        self._charts: dict[str, int] = {}
        self._run = ""
        self._loading: asyncio.Task[None] | None = None
        self._next = 0
        self.heard = self.asked = self.bytes = 0

    async def look(self) -> None:
        """Until the server closes the page."""
        async with self._session.get(f"{self._address}{self._path}") as answer:
            found = CLIENT.search(await answer.text())
        assert found, f"{self._path} is not a page"
        query = {
            "client_id": found[1], "next_message_id": "0", "implicit_handshake": "true",
            "document_id": str(uuid4()), "tab_id": str(uuid4()), "EIO": "4", "transport": "websocket",
        }  # fmt: skip
        address = f"{self._address}/_nicegui_ws/socket.io/?{urlencode(query)}"
        # Browsers offer compression too.
        async with self._session.ws_connect(address, compress=15, max_msg_size=0) as socket:
            beat = asyncio.create_task(self._acknowledge(socket, found[1]))
            try:
                async for message in socket:
                    await self._take(socket, message.data)
            finally:
                beat.cancel()

    async def _take(self, socket: aiohttp.ClientWebSocketResponse, text: str) -> None:
        self.bytes += len(text)
        if text.startswith("0"):
            await socket.send_str("40")
        elif text == "2":
            await socket.send_str("3")
        elif text.startswith("42"):
            self.heard += 1
            kind, body = json.loads(text[2:])
            self._next = body.pop("_id", self._next - 1) + 1
            if kind == "update":
                self._drawn(body)
            elif kind == "run_javascript" and "rs.grow(" in body["code"]:
                self._load()

    def _drawn(self, elements: dict[str, Any]) -> None:
        for element in elements.values():
            for source in (element or {}).get("props", {}).get("sources", ()):
                self._run = source["run"]
                self._charts.setdefault(source["name"], 0)
                self._load()

    def _load(self) -> None:
        if self._run and (self._loading is None or self._loading.done()):
            self._loading = asyncio.create_task(self._fetch())

    async def _fetch(self) -> None:
        await asyncio.sleep(0)  # charts that are drawn together ask together
        names = list(self._charts)[-SEEN if self._at_end else 0 :][:SEEN]
        query = [("axis", "step"), ("points", WIDTH)]
        query += [pair for name in names for pair in (("name", name), ("have", self._charts[name]))]
        address = f"{self._address}/api/runs/{quote(self._run)}/curves?{urlencode(query)}"
        async with self._session.get(address) as answer:
            body = await answer.read()
        self.asked += 1
        self.bytes += len(body)
        self._charts |= {curve["name"]: curve["number"] for curve in json.loads(body)}

    async def _acknowledge(self, socket: aiohttp.ClientWebSocketResponse, client_id: str) -> None:
        while True:
            await asyncio.sleep(ACK_SECONDS)
            said = {"client_id": client_id, "next_message_id": self._next}
            await socket.send_str(f"42{json.dumps(['ack', said])}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--path", action="append", required=True, help="given again: pages take turns")
    parser.add_argument("--pages", type=int, default=10)
    asked = parser.parse_args()
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookies={COOKIE: asked.token}, cookie_jar=jar) as session:
        viewers = [
            Viewer(session, asked.address, asked.path[number % len(asked.path)], bool(number % 2))
            for number in range(asked.pages)
        ]
        # When one page cannot be opened, all end: ten are what is measured.
        await asyncio.gather(tell(viewers), *(viewer.look() for viewer in viewers))


async def tell(viewers: list[Viewer]) -> None:
    """What all of them have heard and asked, once a second."""
    while True:
        await asyncio.sleep(1.0)
        sums = {
            name: sum(getattr(viewer, name) for viewer in viewers) for name in ("heard", "asked", "bytes")
        }
        print(json.dumps(sums), flush=True)


if __name__ == "__main__":
    asyncio.run(main())

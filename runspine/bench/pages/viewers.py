"""Simulates open pages without a browser: their requests and messages, without drawing.

`python -m runspine.bench.pages.viewers …` stands for browsers on other machines: it speaks the page's
protocol (socket.io over a web socket, charts over HTTP) and discards what it receives.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
from typing import Any
from urllib.parse import quote, urlencode
from uuid import uuid4

import aiohttp

ACK_SECONDS = 3.0
WIDTH = 600
# Charts visible at once in a usual window; every other page is scrolled to the end.
VISIBLE_CHARTS = 8
CLIENT = re.compile(r"client_id\W+([0-9a-f-]{36})")


class PageViewer:
    """One open page."""

    def __init__(self, session: aiohttp.ClientSession, address: str, path: str, at_end: bool) -> None:
        self._session = session
        self._address = address
        self._path = path
        self._at_end = at_end
        # Version of each series that is held, in the order of the charts.
        self._charts: dict[str, int] = {}
        self._run = ""
        self._loading: asyncio.Task[None] | None = None
        self._next = 0
        self.received = self.requests = self.bytes = 0

    async def keep_open(self) -> None:
        """Keep the page open until the server closes it."""
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
            self.received += 1
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
        await asyncio.sleep(0)  # charts that are drawn together are requested together
        names = list(self._charts)[-VISIBLE_CHARTS if self._at_end else 0 :][:VISIBLE_CHARTS]
        query = [("axis", "step"), ("points", WIDTH)]
        query += [pair for name in names for pair in (("name", name), ("have", self._charts[name]))]
        address = f"{self._address}/api/runs/{quote(self._run)}/curves?{urlencode(query)}"
        async with self._session.get(address) as answer:
            body = await answer.read()
        self.requests += 1
        self.bytes += len(body)
        self._charts |= {curve["name"]: curve["number"] for curve in json.loads(body)}

    async def _acknowledge(self, socket: aiohttp.ClientWebSocketResponse, client_id: str) -> None:
        while True:
            await asyncio.sleep(ACK_SECONDS)
            acknowledged = {"client_id": client_id, "next_message_id": self._next}
            await socket.send_str(f"42{json.dumps(['ack', acknowledged])}")


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True)
    parser.add_argument("--path", action="append", required=True, help="given again: pages take turns")
    parser.add_argument("--pages", type=int, default=10)
    args = parser.parse_args()
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        form = {"token": os.environ["RUNSPINE_TOKEN"], "to": "/session"}
        async with session.post(f"{args.address}/login", data=form) as answer:
            assert answer.status == 204, f"the login failed with {answer.status}"
        viewers = [
            PageViewer(session, args.address, args.path[number % len(args.path)], bool(number % 2))
            for number in range(args.pages)
        ]
        # When one page cannot be opened, all end: the measurement needs all of them.
        await asyncio.gather(print_totals(viewers), *(viewer.keep_open() for viewer in viewers))


async def print_totals(viewers: list[PageViewer]) -> None:
    """What all of them have received and requested, once a second."""
    while True:
        await asyncio.sleep(1.0)
        sums = {
            name: sum(getattr(viewer, name) for viewer in viewers)
            for name in ("received", "requests", "bytes")
        }
        print(json.dumps(sums), flush=True)


if __name__ == "__main__":
    asyncio.run(main())

"""The page's sessions against real services: nothing before the login, nothing after the logout."""

from __future__ import annotations

import asyncio
import io
import re
import time
from collections.abc import AsyncIterator
from uuid import uuid4

import aiohttp
import pytest

from tests.kit.callers import GuardedServices
from tests.kit.waiting import eventually

pytestmark = pytest.mark.slow
AGENT = {"User-Agent": "Mozilla/5.0 (X11; Linux) Firefox/140.0"}
CLIENT = re.compile(r"client_id\W+([0-9a-f-]{36})")
# What was promised.
MAX_SECONDS = 2.0


class Visit:
    """A browser without a window: cookies, pages and their sockets."""

    def __init__(self, http: aiohttp.ClientSession, address: str) -> None:
        self.http, self.address = http, address

    async def login(self, token: str) -> int:
        form = {"token": token, "to": "/session"}
        async with self.http.post(f"{self.address}/login", data=form, allow_redirects=False) as answer:
            return answer.status

    async def enter(self, token: str) -> None:
        """Log in, as soon as the page knows the token."""

        async def entered() -> bool:
            return await self.login(token) == 303

        await eventually(entered, 30, "logged in")

    async def get(self, path: str) -> int:
        async with self.http.get(f"{self.address}{path}", allow_redirects=False) as answer:
            await answer.read()
            return answer.status

    async def page(self, path: str = "/") -> aiohttp.ClientWebSocketResponse:
        """The socket of an open page."""
        async with self.http.get(f"{self.address}{path}") as answer:
            found = CLIENT.search(await answer.text())
        assert found, "a page"
        query = {
            "client_id": found[1], "next_message_id": "0", "implicit_handshake": "true",
            "document_id": str(uuid4()), "tab_id": str(uuid4()), "EIO": "4", "transport": "websocket",
        }  # fmt: skip
        socket = await self.http.ws_connect(f"{self.address}/_nicegui_ws/socket.io/", params=query)
        assert (await socket.receive_str(timeout=30)).startswith("0")
        await socket.send_str("40")
        assert (await socket.receive_str(timeout=30)).startswith("40")
        return socket


@pytest.fixture
async def visit(guarded: GuardedServices) -> AsyncIterator[Visit]:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar, headers=AGENT) as http:
        yield Visit(http, guarded.page)


async def closed_after(socket: aiohttp.ClientWebSocketResponse) -> float:
    """Seconds until the server closes the socket, with the code for a session that is over."""
    started = time.monotonic()
    async for _ in socket:
        assert time.monotonic() - started < 60, "still open"
    assert socket.close_code == 4401
    return time.monotonic() - started


async def test_nothing_is_built_for_strangers(visit: Visit) -> None:
    for path in ("/", "/fleet", "/new", "/none", "/api/runs/x/series", "/static/runspine.css"):
        async with visit.http.get(f"{visit.address}{path}") as answer:
            assert answer.url.path == "/login", path
            assert not CLIENT.search(await answer.text()), "no client of a page"
    for path in ("/_nicegui/none", "/_nicegui_ws/socket.io/?EIO=4&transport=polling", "/session"):
        assert await visit.get(path) == 401
    async with visit.http.ws_connect(
        f"{visit.address}/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
    ) as ws:
        assert (await ws.receive(timeout=30)).type == aiohttp.WSMsgType.CLOSE
        assert ws.close_code == 4401
    async with visit.http.post(
        f"{visit.address}/login", data=io.BytesIO(b"token=" + b"x" * (70 << 20))
    ) as answer:
        assert answer.status == 413


async def test_the_cookie_is_not_the_token_and_belongs_to_one_port_and_browser(
    guarded: GuardedServices, visit: Visit
) -> None:
    guarded.tokens.add("dora", "doras-token", "run")
    await visit.enter("doras-token")
    [cookie] = [
        one for one in visit.http.cookie_jar if one.key.startswith("runspine_") and "browser" not in one.key
    ]
    port = guarded.page.rpartition(":")[2]
    assert (cookie.key, "doras-token" in cookie.value, len(cookie.value) >= 40) == (
        f"runspine_{port}",
        False,
        True,
    )
    assert (cookie["httponly"], cookie["samesite"], int(cookie["max-age"])) == (True, "strict", 72 * 3600)
    assert await visit.get("/session") == 204
    copied = {"Cookie": f"{cookie.key}={cookie.value}"}
    async with aiohttp.ClientSession() as other:
        for headers, status in ((AGENT, 204), ({"User-Agent": "curl/8"}, 401)):
            async with other.get(f"{guarded.page}/session", headers={**copied, **headers}) as answer:
                assert answer.status == status
        foreign = {**copied, **AGENT, "Origin": "http://127.0.0.1:1"}
        async with other.post(f"{guarded.page}/logout", headers=foreign) as answer:
            assert answer.status == 403, "a page of another port"
        async with other.ws_connect(f"{guarded.page}/_nicegui_ws/socket.io/", headers=foreign) as ws:
            assert (await ws.receive(timeout=30)).type == aiohttp.WSMsgType.CLOSE
    stored = [path.read_text() for path in (guarded.folder / "dashboard" / "sessions").iterdir()]
    assert stored
    assert not any("doras-token" in text or cookie.value in text for text in stored)


@pytest.mark.alone
@pytest.mark.parametrize("how", ["logout", "revocation"])
async def test_an_open_page_ends_with_its_session_within_two_seconds(
    guarded: GuardedServices, visit: Visit, how: str
) -> None:
    name = f"emil-{how}"
    guarded.tokens.add(name, name, "run")
    await visit.enter(name)
    sockets = [await visit.page("/"), await visit.page("/fleet")]
    if how == "logout":
        async with visit.http.post(f"{visit.address}/logout", allow_redirects=False) as answer:
            assert answer.status == 303
    else:
        guarded.tokens.revoke(name, time.time())
    for socket in sockets:
        assert await closed_after(socket) < MAX_SECONDS
    assert await visit.get("/session") == 401
    assert await visit.get("/") == 303


async def test_a_login_survives_a_killed_dashboard_and_a_logout_does_too(
    guarded: GuardedServices, visit: Visit
) -> None:
    guarded.tokens.add("fred", "freds-token", "read")
    await visit.enter("freds-token")
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True), headers=AGENT) as http:
        left = Visit(http, guarded.page)
        assert await left.login("freds-token") == 303
        [cookie] = [f"{one.key}={one.value}" for one in http.cookie_jar if "browser" not in one.key]
        async with http.post(f"{guarded.page}/logout", allow_redirects=False):
            pass
    guarded.kill_dashboard()
    await asyncio.to_thread(guarded.start_dashboard)
    assert await visit.get("/session") == 204
    async with aiohttp.ClientSession(headers={**AGENT, "Cookie": cookie}) as http:
        assert await Visit(http, guarded.page).get("/session") == 401


async def test_guessing_is_throttled(visit: Visit) -> None:
    answers = [await visit.login(f"guess {number}") for number in range(14)]
    assert answers[:8] == [403] * 8
    assert answers[-1] == 429

    async def allowed() -> bool:
        return await visit.login("wrong") == 403

    await eventually(allowed, 60, "the address may try again")

"""The guard in front of the whole site: without a session nothing but the login page is reached or built."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse, RedirectResponse, Response

from runspine.services.dashboard.edges.login.session import SCOPE_KEY, Session
from runspine.services.dashboard.edges.login.sessions import Sessions

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# NiceGUI's components compile templates in the browser, hence unsafe-eval.
SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        "style-src 'self' 'unsafe-inline'; font-src 'self' data:; "
        "img-src 'self' data: blob:; media-src 'self' blob:; connect-src 'self' ws: wss:; "
        "frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
}
# The client and its API: everything is a file of this site, and nothing is evaluated.
STRICT_PATHS = ("/app", "/api/v1")
STRICT_HEADERS = {
    **SECURITY_HEADERS,
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
        "media-src 'self' blob:; connect-src 'self'; font-src 'self'; manifest-src 'self'; "
        "frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    ),
}
# What the login page consists of.
PUBLIC = ("/login", "/static/login.css", "/static/login.js", "/static/icon.svg")
# Bodies of strangers: a token and a path.
MAX_PUBLIC_BYTES = 16 << 10
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
# Close code of a web socket; live.js, play.js and cells.js know it.
UNAUTHENTICATED = 4401


def cookie_name(host: str, secure: bool) -> str:
    """The session's cookie. Browsers send cookies to every port of a host: its name holds the port."""
    port = urlsplit(f"//{host}").netloc.rpartition("]")[2].rpartition(":")[2]
    port = port if port.isdigit() else "0"
    return f"__Host-runspine_{port}" if secure else f"runspine_{port}"


class Guard:
    """ASGI middleware around the site. Requests get the session in their scope and end with it."""

    def __init__(self, app: App, sessions: Sessions, *, secure: bool, behind_proxy: bool) -> None:
        self.app = app
        self._sessions = sessions
        self._secure, self._behind_proxy = secure, behind_proxy

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        session = self._session(headers)
        if scope["type"] == "websocket":
            await self._socket(scope, receive, send, session if self._same_origin(headers) else None)
        else:
            await self._request(scope, receive, _with_headers(scope, send), headers, session)

    def _session(self, headers: Headers) -> Session | None:
        cookies: SimpleCookie = SimpleCookie()
        try:
            cookies.load(headers.get("cookie", ""))
        except CookieError:
            return self._sessions.find("", headers)
        found = cookies.get(cookie_name(headers.get("host", ""), self._secure))
        return self._sessions.find(found.value if found else "", headers)

    def _same_origin(self, headers: Headers) -> bool:
        """Whether no page of another site, or of another port of this host, has made the request."""
        origin = urlsplit(headers.get("origin", "")).netloc
        if not headers.get("origin"):
            return True
        hosts = [headers.get("host", "")]
        if self._behind_proxy:
            hosts.append(headers.get("x-forwarded-host", ""))
        return bool(origin) and origin in hosts

    async def _request(
        self, scope: Scope, receive: Receive, send: Send, headers: Headers, session: Session | None
    ) -> None:
        path, unsafe = scope["path"], scope["method"] not in SAFE_METHODS
        if unsafe and not self._same_origin(headers):
            await PlainTextResponse("another site has made this request", 403)(scope, receive, send)
        elif path in PUBLIC:
            scope[SCOPE_KEY] = session
            await self._public(scope, receive, send, headers)
        elif session is None:
            await _login_first(scope)(scope, receive, send)
        else:
            scope[SCOPE_KEY] = session
            await self._admitted(scope, receive, send, session)

    async def _public(self, scope: Scope, receive: Receive, send: Send, headers: Headers) -> None:
        """The login page. Its body is bounded before it is read, and while it is."""
        length, received = headers.get("content-length", "0"), 0
        if not length.isdigit() or int(length) > MAX_PUBLIC_BYTES:
            await PlainTextResponse("too large for a login", 413)(scope, receive, send)
            return

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            return message if received <= MAX_PUBLIC_BYTES else {"type": "http.disconnect"}

        await self.app(scope, bounded, send)

    async def _admitted(self, scope: Scope, receive: Receive, send: Send, session: Session) -> None:
        """Serve the request until it is answered or its session ends."""
        task, started = asyncio.current_task(), False
        assert task is not None

        async def sending(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            with session.holding(task.cancel):
                await self.app(scope, receive, sending)
        except asyncio.CancelledError:
            if not session.over.is_set():
                raise
            task.uncancel()
            if not started:
                await PlainTextResponse(session.why, 401)(scope, receive, send)

    async def _socket(self, scope: Scope, receive: Receive, send: Send, session: Session | None) -> None:
        if session is None:
            # Accepted first: a browser learns the code of an accepted socket only.
            await receive()
            await send({"type": "websocket.accept"})
            await send({"type": "websocket.close", "code": UNAUTHENTICATED, "reason": "log in first"})
            return
        scope[SCOPE_KEY] = session
        socket = GuardedSocket(receive, send, session)
        try:
            with session.holding(lambda: None):
                await self.app(scope, socket.receive, socket.send)
        finally:
            socket.over.cancel()


class GuardedSocket:
    """A web socket that closes when its session ends; what the site sends after that is dropped."""

    def __init__(self, receive: Receive, send: Send, session: Session) -> None:
        self._receive, self._send, self._session = receive, send, session
        self.over = asyncio.ensure_future(session.over.wait())

    async def receive(self) -> Message:
        waiting = asyncio.ensure_future(self._receive())
        try:
            await asyncio.wait({waiting, self.over}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not waiting.done():
                waiting.cancel()
        if waiting.done() and waiting.result()["type"] == "websocket.disconnect":
            return waiting.result()
        if not self._session.over.is_set():
            return waiting.result()
        await self._send(
            {"type": "websocket.close", "code": UNAUTHENTICATED, "reason": self._session.why[:120]}
        )
        return {"type": "websocket.disconnect", "code": UNAUTHENTICATED, "reason": self._session.why[:120]}

    async def send(self, message: Message) -> None:
        if not self._session.over.is_set():
            await self._send(message)


def _login_first(scope: Scope) -> Response:
    if scope["method"] not in SAFE_METHODS or scope["path"].startswith(("/session", "/_nicegui", "/api/v1/")):
        return PlainTextResponse("log in first", 401)
    query = scope["query_string"].decode(errors="replace")
    to = f"{scope['path']}?{query}" if query else scope["path"]
    return RedirectResponse(f"/login?{urlencode({'to': to})}", 303)


def _with_headers(scope: Scope, send: Send) -> Send:
    path = scope["path"]
    strict = any(path == each or path.startswith(f"{each}/") for each in STRICT_PATHS)

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            MutableHeaders(scope=message).update(STRICT_HEADERS if strict else SECURITY_HEADERS)
        await send(message)

    return sending

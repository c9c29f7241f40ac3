"""The routes of login and logout."""

from __future__ import annotations

from fastapi import FastAPI, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from runspine.ids import new_ulid
from runspine.rpc.call_records import Audit
from runspine.services.dashboard.edges.login.guard import cookie_name
from runspine.services.dashboard.edges.login.login_page import login_page
from runspine.services.dashboard.edges.login.login_throttle import LoginThrottle
from runspine.services.dashboard.edges.login.person import Login, Person
from runspine.services.dashboard.edges.login.session import LOGGED_OUT, SCOPE_KEY, Session
from runspine.services.dashboard.edges.login.sessions import Sessions
from runspine.wire.v1.facts_pb2 import DONE, REFUSED, CallRecorded

WRONG = "Unknown token. Ask the operator of this stack for one."


class LoginRoutes:
    """Login by token, throttled; logout, which ends the session in every tab."""

    def __init__(self, login: Login, sessions: Sessions, audit: Audit, *, secure: bool) -> None:
        self._login, self._sessions, self._audit, self._secure = login, sessions, audit, secure
        self._throttle = LoginThrottle()

    def add_to(self, app: FastAPI) -> None:
        @app.get("/login", response_class=HTMLResponse)
        async def show(to: str = "/") -> str:
            return login_page(inside(to))

        @app.post("/login")
        async def enter(request: Request, token: str = Form(""), to: str = Form("/")) -> Response:
            return self._enter(request, token.strip(), inside(to))

        @app.post("/logout")
        async def leave(request: Request) -> Response:
            session: Session = request.scope[SCOPE_KEY]
            self._sessions.end(session, LOGGED_OUT)
            self._record(request, "logout", session.person, 303)
            answer = RedirectResponse("/login", status_code=303)
            answer.delete_cookie(self._cookie(request), secure=self._secure, httponly=True, samesite="strict")
            return answer

        @app.get("/session")
        async def session() -> Response:
            return Response(status_code=204)

    def _enter(self, request: Request, token: str, to: str) -> Response:
        address = request.client.host if request.client else ""
        if seconds := self._throttle.seconds_to_wait(address):
            text = f"Too many failed logins. Try again in {seconds:.0f} s."
            headers = {"Retry-After": f"{seconds:.0f}"}
            self._record(request, "login", None, 429, "too many failed logins")
            return HTMLResponse(login_page(to, problem=text), status_code=429, headers=headers)
        person = self._login.person(token)
        if person is None:
            self._throttle.failed(address)
            self._record(request, "login", None, 403, "unknown, revoked or expired token")
            return HTMLResponse(login_page(to, problem=WRONG), status_code=403)
        self._throttle.succeeded(address)
        if (old := request.scope.get(SCOPE_KEY)) is not None:
            self._sessions.end(old, LOGGED_OUT)
        identifier, _ = self._sessions.open(person, request.headers)
        self._record(request, "login", person, 303)
        answer = RedirectResponse(to, status_code=303)
        answer.set_cookie(
            self._cookie(request),
            identifier,
            max_age=int(self._sessions.max_seconds),
            httponly=True,
            samesite="strict",
            secure=self._secure,
        )
        return answer

    def _record(
        self, request: Request, method: str, person: Person | None, status: int, reason: str = ""
    ) -> None:
        self._audit.record(
            CallRecorded(
                request_id=new_ulid(),
                method=method,
                caller=person.name if person else "",
                scope=person.scope if person else "",
                peer=request.client.host if request.client else "",
                outcome=DONE if person else REFUSED,
                code=str(status),
                reason=reason,
            )
        )

    def _cookie(self, request: Request) -> str:
        return cookie_name(request.headers.get("host", ""), self._secure)


def inside(to: str) -> str:
    """The path if it is one of this site, else the start page."""
    return to if to.startswith("/") and not to.startswith(("//", "/\\")) else "/"

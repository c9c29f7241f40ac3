"""All sessions of the page: opened by a login, found by their cookie, ended by logout, age or revocation."""

from __future__ import annotations

import asyncio
import hashlib
import re
import secrets
import time
from collections.abc import Mapping
from pathlib import Path

import structlog

from runspine.services.dashboard.edges.login.person import Login, Person
from runspine.services.dashboard.edges.login.session import Session
from runspine.services.dashboard.edges.login.session_files import SessionFiles, StoredSession, key_of

log = structlog.get_logger()

# How soon a page notices that its session is over.
CHECK_SECONDS = 0.5
# How often the last use of a session is written down.
STORE_SECONDS = 300.0
SWEEP_SECONDS = 3600.0
MAX_SESSIONS, MAX_SESSIONS_PER_TOKEN = 5_000, 50
EXPIRED = "this login has expired: log in again"


def browser_of(headers: Mapping[str, str]) -> str:
    """The browser without its version, which changes by itself."""
    text = re.sub(r"[\d.]+", "", headers.get("user-agent", ""))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


class Sessions:
    """Sessions in memory; their records are read when a cookie is seen for the first time after a restart."""

    def __init__(self, login: Login, folder: Path, idle_seconds: float, max_seconds: float) -> None:
        self._login = login
        self._files = SessionFiles(folder)
        self._idle_seconds, self._max_seconds = idle_seconds, max_seconds
        self._sessions: dict[str, Session] = {}
        self._browsers: dict[str, str] = {}
        self._stored_at: dict[str, float] = {}
        # Everybody, where there is no tokens file.
        self._anybody = Session("", Person("", "admin", ""), 0.0, 0.0)

    @property
    def max_seconds(self) -> float:
        return self._max_seconds

    def open(self, person: Person, headers: Mapping[str, str]) -> tuple[str, Session]:
        """A new session, and the identifier for its cookie."""
        identifier, now = secrets.token_urlsafe(32), time.time()
        browser = browser_of(headers)
        session = Session(key_of(identifier), person, now, now)
        self._files.write(identifier, StoredSession(person.token, browser, now, now))
        self._add(session, browser)
        return identifier, session

    def find(self, identifier: str, headers: Mapping[str, str]) -> Session | None:
        """The session of a cookie; None when it is over, unknown, or another browser's."""
        session = self._find(identifier, headers) if identifier else None
        if session is None:
            return self._anybody if self._login.is_open else None
        now = time.time()
        session.seen = now
        if now - self._stored_at[session.key] > STORE_SECONDS:
            self._store(identifier, session)
        return session

    def _find(self, identifier: str, headers: Mapping[str, str]) -> Session | None:
        key = key_of(identifier)
        session = self._sessions.get(key) or self._restored(identifier, key)
        if session is None or self._browsers[key] != browser_of(headers):
            return None
        if why := self._refusal(session):
            self.end(session, why)
            return None
        return session

    def _restored(self, identifier: str, key: str) -> Session | None:
        stored = self._files.read(identifier)
        person = self._login.person(stored.token) if stored else None
        if stored is None or person is None:
            return None
        session = Session(key, person, stored.created, stored.seen)
        if self._refusal(session):
            self._files.remove(key)
            return None
        self._add(session, stored.browser)
        return session

    def end(self, session: Session, why: str) -> None:
        """End a session everywhere. Its record goes first: a restart must not bring it back."""
        if session is self._anybody:
            return
        self._files.remove(session.key)
        for known in (self._sessions, self._browsers, self._stored_at):
            known.pop(session.key, None)
        session.end(why)

    async def run(self) -> None:
        """End sessions whose time or token is over, until cancelled."""
        swept = 0.0
        while True:
            for session in list(self._sessions.values()):
                if session.has_open:
                    session.seen = time.time()
                if why := self._refusal(session):
                    log.info("session.ended", person=session.person.name, reason=why)
                    self.end(session, why)
            if time.monotonic() - swept > SWEEP_SECONDS:
                swept = time.monotonic()
                now = time.time()
                await asyncio.to_thread(self._files.sweep, now - self._max_seconds, now - self._idle_seconds)
            await asyncio.sleep(CHECK_SECONDS)

    def _refusal(self, session: Session) -> str:
        now = time.time()
        if now - session.created > self._max_seconds or now - session.seen > self._idle_seconds:
            return EXPIRED
        return self._login.refusal(session.person.token)

    def _add(self, session: Session, browser: str) -> None:
        own = [one for one in self._sessions.values() if one.person.token == session.person.token]
        if len(own) >= MAX_SESSIONS_PER_TOKEN:
            self.end(min(own, key=lambda one: one.seen), "logged in elsewhere too often: log in again")
        elif len(self._sessions) >= MAX_SESSIONS:
            oldest = min(self._sessions.values(), key=lambda one: one.seen)
            self.end(oldest, "too many people are logged in: log in again")
        self._sessions[session.key] = session
        self._browsers[session.key] = browser
        self._stored_at[session.key] = time.time()

    def _store(self, identifier: str, session: Session) -> None:
        self._stored_at[session.key] = session.seen
        browser = self._browsers[session.key]
        record = StoredSession(session.person.token, browser, session.created, session.seen)
        self._files.write(identifier, record)

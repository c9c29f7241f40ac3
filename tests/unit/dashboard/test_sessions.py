"""Sessions of the page: how they begin, what they are bound to, and how they end."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from runspine.rpc import token_store
from runspine.rpc.token_file import TokenFile
from runspine.services.dashboard.edges.login import sessions as module
from runspine.services.dashboard.edges.login.guard import cookie_name
from runspine.services.dashboard.edges.login.login_throttle import (
    ADDRESS_BURST,
    MAX_ADDRESSES,
    TOTAL_BURST,
    LoginThrottle,
)
from runspine.services.dashboard.edges.login.person import Login, Person
from runspine.services.dashboard.edges.login.session import Session
from runspine.services.dashboard.edges.login.sessions import Sessions

FIREFOX = {"user-agent": "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"}
CURL = {"user-agent": "curl/8.1"}


@pytest.fixture
def tokens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TokenFile:
    monkeypatch.setattr(token_store, "CHECK_SECONDS", 0.0)
    file = TokenFile(tmp_path / "tokens.json")
    file.add("anna", "annas-token", "run")
    return file


class Site:
    """Sessions of one process; `restarted` is the next process on the same folder."""

    def __init__(self, tokens: TokenFile, folder: Path) -> None:
        self.tokens, self.folder = tokens, folder
        self.login = Login(tokens.path)
        self.sessions = Sessions(self.login, folder, idle_seconds=100.0, max_seconds=1000.0)

    def restarted(self) -> Site:
        return Site(self.tokens, self.folder)

    def open(self, token: str = "annas-token") -> str:
        person = self.login.person(token)
        assert person is not None
        return self.sessions.open(person, FIREFOX)[0]

    def name(self, identifier: str) -> str:
        found = self.sessions.find(identifier, FIREFOX)
        return found.person.name if found else ""


@pytest.fixture
def site(tokens: TokenFile, tmp_path: Path) -> Site:
    return Site(tokens, tmp_path / "sessions")


def test_a_session_is_found_by_its_cookie_alone_and_by_the_browser_that_logged_in(site: Site) -> None:
    identifier = site.open()
    assert site.name(identifier) == "anna"
    assert site.name("annas-token") == site.name("") == site.name(identifier + "x") == ""
    assert site.sessions.find(identifier, CURL) is None
    newer = {"user-agent": FIREFOX["user-agent"].replace("140", "141")}
    assert site.sessions.find(identifier, newer), "a browser updates itself"


def test_a_restart_logs_nobody_out_and_the_disk_holds_no_token(site: Site) -> None:
    identifier = site.open()
    stored = "".join(path.read_text() for path in site.folder.iterdir())
    assert "annas-token" not in stored
    assert identifier not in stored
    assert site.restarted().name(identifier) == "anna"


def test_a_session_that_was_ended_stays_so_after_a_restart(site: Site) -> None:
    identifier = site.open()
    session = site.sessions.find(identifier, FIREFOX)
    assert session is not None
    closed: list[str] = []
    session.on_end(lambda: closed.append("page"))
    forget = session.on_end(lambda: closed.append("gone"))
    forget()
    site.sessions.end(session, "you have logged out")
    assert closed == ["page"]
    assert (session.over.is_set(), session.why) == (True, "you have logged out")
    assert site.name(identifier) == site.restarted().name(identifier) == ""


def test_a_revoked_token_ends_its_sessions_also_those_of_before_a_restart(site: Site) -> None:
    identifier = site.open()
    site.tokens.revoke("anna", time.time())
    assert site.restarted().name(identifier) == ""
    assert site.name(identifier) == ""


@pytest.mark.parametrize(("later", "name"), [(99.0, "anna"), (101.0, ""), (1001.0, "")])
def test_a_session_ends_when_nobody_uses_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, later: float, name: str
) -> None:
    identifier, now = site.open(), time.time()
    monkeypatch.setattr(time, "time", lambda: now + later)
    assert site.restarted().name(identifier) == name
    assert site.name(identifier) == name


def test_a_session_ends_with_its_age_however_busy(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    identifier, now = site.open(), time.time()
    for later in range(0, 951, 50):
        monkeypatch.setattr(time, "time", lambda later=later: now + later)
        assert site.name(identifier) == "anna", later
    monkeypatch.setattr(time, "time", lambda: now + 1001)
    assert site.name(identifier) == ""


def test_a_record_that_was_changed_on_disk_is_not_accepted(site: Site) -> None:
    identifier = site.open()
    [path] = site.folder.iterdir()
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "created": record["created"] + 500}))
    assert site.restarted().name(identifier) == "", "a longer life"
    path.write_text("{")
    assert site.restarted().name(identifier) == ""


def test_the_oldest_session_of_a_token_makes_room(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SESSIONS_PER_TOKEN", 3)
    opened = [site.open() for _ in range(4)]
    assert [site.name(one) for one in opened] == ["", "anna", "anna", "anna"]
    assert len(list(site.folder.iterdir())) == 3


def test_without_a_tokens_file_everybody_is_admitted(tmp_path: Path) -> None:
    sessions = Sessions(Login(None), tmp_path, 10.0, 10.0)
    found = sessions.find("", FIREFOX)
    assert found is not None
    assert found.person == Person("", "admin", "")
    sessions.end(found, "nobody can log out here")
    assert not found.over.is_set()


def test_what_registers_with_an_ended_session_is_closed_at_once() -> None:
    session = Session("", Person("a", "run", "t"), 0.0, 0.0)
    session.end("over")
    closed: list[int] = []
    session.on_end(lambda: closed.append(1))
    assert closed == [1]


@pytest.mark.parametrize(
    ("host", "secure", "name"),
    [
        ("127.0.0.1:8090", False, "runspine_8090"),
        ("[::1]:8091", False, "runspine_8091"),
        ("runs.example.org", True, "__Host-runspine_0"),
        ("[::1]", False, "runspine_0"),
        ("x:y; evil=1", False, "runspine_0"),
    ],
)
def test_the_cookie_has_the_port_in_its_name(host: str, secure: bool, name: str) -> None:
    assert cookie_name(host, secure) == name


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_an_address_that_guesses_must_wait_and_others_need_not() -> None:
    clock = Clock()
    throttle = LoginThrottle(clock)
    for _ in range(ADDRESS_BURST):
        assert throttle.seconds_to_wait("guesser") == 0
        throttle.failed("guesser")
    assert 0 < throttle.seconds_to_wait("guesser") <= 6
    assert throttle.seconds_to_wait("other") == 0
    clock.now += 6
    assert throttle.seconds_to_wait("guesser") == 0


def test_guesses_from_many_addresses_are_limited_together_and_known_addresses_may_still_log_in() -> None:
    clock = Clock()
    throttle = LoginThrottle(clock)
    throttle.succeeded("anna")
    for number in range(TOTAL_BURST):
        throttle.failed(f"10.0.0.{number}")
    assert throttle.seconds_to_wait("new") > 0
    assert throttle.seconds_to_wait("anna") == 0


def test_the_throttle_remembers_a_bounded_number_of_addresses() -> None:
    throttle = LoginThrottle(Clock())
    for number in range(MAX_ADDRESSES + 500):
        throttle.failed(str(number))
        throttle.succeeded(f"known {number}")
    assert len(throttle._addresses) == len(throttle._known) == MAX_ADDRESSES

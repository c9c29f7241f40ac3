"""Tokens: who is let in, until when, and how soon a change of the file counts."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from click.testing import CliRunner

from runspine.cli import cli
from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home
from runspine.rpc import token_store
from runspine.rpc.token_file import TokenFile, TokenFileError, digest_of, parse_tokens
from runspine.rpc.token_store import TokenStore


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_store, "CHECK_SECONDS", 0.0)


def refusal(store: TokenStore, text: str) -> str:
    return store.refusal(digest_of(text))


def test_a_revoked_token_is_refused_and_never_comes_back_under_its_name(
    tmp_path: Path, at_once: None
) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    assert file.add("anna", "first", "run")
    store = TokenStore(file.path)
    assert refusal(store, "first") == ""
    assert file.revoke("anna", time.time())
    assert "token 'anna' was revoked on" in refusal(store, "first")
    assert not file.add("anna", "first", "run"), "a script that adds it again"
    assert refusal(store, "first")
    assert file.add("anna", "second", "run")
    assert refusal(store, "second") == ""
    assert "was removed" in refusal(store, "first")


def test_a_token_ends_at_its_time(tmp_path: Path, at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    now = time.time()
    file.add("guest", "g", "read", expires=now + 60)
    store = TokenStore(file.path)
    assert refusal(store, "g") == ""
    monkeypatch.setattr(time, "time", lambda: now + 61)
    assert "token 'guest' has expired on" in refusal(store, "g")


def test_a_file_that_is_swapped_by_a_link_counts(tmp_path: Path, at_once: None) -> None:
    """As Kubernetes replaces the file of a mounted secret."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        TokenFile(tmp_path / name / "tokens.json").add(name, name, "read")
    link = tmp_path / "data"
    link.symlink_to("one")
    store = TokenStore(link / "tokens.json")
    assert (refusal(store, "one"), bool(refusal(store, "two"))) == ("", True)
    (tmp_path / "next").symlink_to("two")
    (tmp_path / "next").replace(link)
    assert (bool(refusal(store, "one")), refusal(store, "two")) == (True, "")


def test_a_change_in_the_same_tick_of_the_clock_counts(tmp_path: Path, at_once: None) -> None:
    path = tmp_path / "tokens.json"
    entry = {"name": "a", "sha256": digest_of("a"), "scope": "read"}
    path.write_text(json.dumps([entry]))
    found = path.stat()
    store = TokenStore(path)
    path.write_text(json.dumps([{**entry, "sha256": digest_of("b")}]))
    os.utime(path, ns=(found.st_atime_ns, found.st_mtime_ns))
    assert refusal(store, "a"), "same size, same time, same inode"


def test_a_broken_file_leaves_the_last_good_tokens_in_force_and_is_reported(
    tmp_path: Path, at_once: None
) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    file.add("anna", "a", "run")
    store = TokenStore(file.path)
    good = file.path.read_text()
    file.path.write_text(good[:20])
    assert refusal(store, "a") == ""
    assert "not JSON" in store.trouble
    file.path.unlink()
    assert refusal(store, "a") == ""
    file.path.write_text("[]")
    assert refusal(store, "a")
    assert store.trouble == ""
    file.path.write_text("{")
    with pytest.raises(SystemExit, match=r"RUNSPINE_TOKENS_FILE .*runspine secrets"):
        TokenStore(file.path)


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"name": "a", "sha256": "x"}, "entry 0 lacks scope"),
        ({"name": "a", "sha256": "x", "scope": "god"}, "scope 'god' is not one of"),
        (
            {"name": "a", "sha256": "x", "scope": "run", "expires": "soon"},
            "expires 'soon' is not an ISO time",
        ),
        ({"name": "a", "sha256": "x", "scope": "run", "expires": 5}, "expires 5 is not an ISO time"),
        ("a", "not a list of"),
    ],
)
def test_a_wrong_entry_is_named(entry: object, words: str) -> None:
    with pytest.raises(TokenFileError, match=words):
        parse_tokens(json.dumps([entry]))


def test_an_entry_of_a_later_release_is_read() -> None:
    entry = {"name": "a", "sha256": "x", "scope": "run", "note": "new"}
    assert parse_tokens(json.dumps([entry]))[0].name == "a"


def test_tokens_that_are_added_at_the_same_time_are_all_there(tmp_path: Path) -> None:
    file = TokenFile(tmp_path / "tokens.json")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: file.add(f"n{n}", f"t{n}", "read"), range(40)))
    assert len(file.tokens()) == 40


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(cli, ["secrets", *words])
    return done.exit_code, done.output


def test_tokens_are_made_listed_and_revoked_on_the_command_line(tmp_path: Path) -> None:
    there = ("--directory", str(tmp_path))
    assert run(*there)[0] == 0
    made = json.loads(run("token", "ben", "--scope", "run", "--expires", "30d", *there, "--json")[1])
    listed = {one["name"]: one for one in json.loads(run("tokens", *there, "--json")[1])}
    assert (listed["ben"]["state"], listed["ben"]["expires"]) == ("valid", made["expires"])
    assert listed["owner"]["expires"] == "never"
    assert run("revoke", "ben", "owner", *there)[0] == 0
    assert json.loads(run("tokens", *there, "--json")[1])[0]["state"].startswith("revoked ")
    code, output = run("revoke", "nobody", *there)
    assert (code, "is called nobody; there are ben, dashboard, notices, owner" in output) == (1, True)
    for wrong in ("yesterday", "2001-01-01", "12x"):
        code, output = run("token", "eve", "--expires", wrong, *there)
        assert code == 2, output
    before = (tmp_path / ".env").read_text()
    assert run(*there)[0] == 0
    assert (tmp_path / ".env").read_text() != before, "the revoked token of the owner is replaced"
    states = {one["name"]: one["state"] for one in json.loads(run("tokens", *there, "--json")[1])}
    assert states["owner"] == "valid"


def test_tokens_of_an_earlier_release_are_moved_to_the_folder_that_containers_mount(tmp_path: Path) -> None:
    TokenFile(tmp_path / "tokens.json").add("old", "o", "admin")
    assert [one["name"] for one in json.loads(run("tokens", "--directory", str(tmp_path), "--json")[1])] == [
        "old"
    ]
    assert (tmp_path / "tokens" / "tokens.json").exists()
    assert not (tmp_path / "tokens.json").exists()


def test_the_revoked_token_of_an_embedded_stack_is_replaced_at_its_next_start(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    home.path.mkdir(mode=0o700)
    first = load_credentials(home)
    assert run("revoke", "local", "--directory", str(home.path))[0] == 0
    second = load_credentials(home)
    assert (second.token != first.token, second.page_token) == (True, first.page_token)
    assert second == load_credentials(home)

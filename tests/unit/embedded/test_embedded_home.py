from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home, HomeInUseError, HomeUnusableError
from runspine.embedded.logs import KEPT_FILES, ROTATE_BYTES, log_tail, open_log
from runspine.embedded.processes import identity_of, is_alive
from runspine.eventlog.permissions import USERS


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home.at(tmp_path / "home")
    home.prepare()
    return home


def test_a_home_and_all_in_it_is_made_for_its_owner_alone(home: Home) -> None:
    load_credentials(home)
    for path in [home.path, *home.path.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path


def test_an_empty_directory_that_others_may_read_is_closed_to_them(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    Home.at(tmp_path).prepare()
    assert tmp_path.stat().st_mode & 0o777 == 0o700


def test_a_directory_with_other_things_is_refused_rather_than_closed(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").touch()
    tmp_path.chmod(0o755)
    with pytest.raises(HomeUnusableError, match=r"open to other users \(mode 755\).*chmod 700"):
        Home.at(tmp_path).prepare()
    assert tmp_path.stat().st_mode & 0o777 == 0o755
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_directory_closed_to_its_owner_is_refused_with_the_remedy(tmp_path: Path) -> None:
    place = tmp_path / "home"
    place.mkdir(mode=0o500)
    with pytest.raises(HomeUnusableError, match=r"closed to yourself \(mode 500\): chmod 700"):
        Home.at(place).prepare()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_a_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    place = tmp_path / "home"
    place.mkdir(mode=0o700)
    os.chown(place, 12345, -1)
    with pytest.raises(HomeUnusableError, match="belongs to user 12345"):
        Home.at(place).prepare()


def test_a_file_in_the_place_of_the_home_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(HomeUnusableError, match="cannot use"):
        Home.at(tmp_path / "home").prepare()


def test_a_home_is_held_by_one_at_a_time(home: Home) -> None:
    held = home.lock()
    with pytest.raises(HomeInUseError):
        home.lock()
    os.close(held)
    os.close(home.lock())


def test_credentials_are_made_once_and_kept(home: Home) -> None:
    first = load_credentials(home)
    assert load_credentials(home) == first
    assert set(first.nats) == set(USERS)
    assert len({*first.nats.values(), first.s3_secret_key, first.token}) == len(USERS) + 2


def test_services_learn_only_the_digest_of_the_token(home: Home) -> None:
    made = load_credentials(home)
    text = home.tokens_file.read_text()
    assert made.token not in text
    assert made.page_token not in text
    assert json.loads(text) == [
        {"name": "local", "sha256": hashlib.sha256(made.token.encode()).hexdigest(), "scope": "admin"},
        {
            "name": "dashboard",
            "sha256": hashlib.sha256(made.page_token.encode()).hexdigest(),
            "scope": "read",
        },
        {
            "name": "notices",
            "sha256": hashlib.sha256(made.notices_token.encode()).hexdigest(),
            "scope": "run",
        },
    ]


def test_tokens_that_a_person_added_are_kept(home: Home) -> None:
    load_credentials(home)
    added = {"name": "grafana", "sha256": "0" * 64, "scope": "read"}
    home.tokens_file.write_text(json.dumps([*json.loads(home.tokens_file.read_text()), added]))
    load_credentials(home)
    assert added in json.loads(home.tokens_file.read_text())


def test_credentials_that_others_could_read_are_not_used(home: Home) -> None:
    load_credentials(home)
    home.credentials_file.chmod(0o644)
    with pytest.raises(HomeUnusableError, match="can be read by other users"):
        load_credentials(home)


def test_a_user_that_a_new_version_brings_gets_a_password_and_the_others_keep_theirs(home: Home) -> None:
    first = load_credentials(home)
    stored = json.loads(home.credentials_file.read_text())
    del stored["nats"]["dashboard"]
    home.credentials_file.write_text(json.dumps(stored))
    again = load_credentials(home)
    assert again.nats["dashboard"] not in ("", first.nats["dashboard"])
    assert {**again.nats, "dashboard": ""} == {**first.nats, "dashboard": ""}


def test_a_large_log_is_set_aside_and_three_old_ones_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "nats.log"
    for number in range(KEPT_FILES + 2):
        descriptor = open_log(path)
        os.write(descriptor, f"{number}".encode())
        os.ftruncate(descriptor, ROTATE_BYTES + 1)
        os.close(descriptor)
    names = sorted(found.name for found in tmp_path.iterdir())
    assert names == ["nats.log", "nats.log.1", "nats.log.2", "nats.log.3"]
    assert [(tmp_path / name).read_bytes()[:1] for name in names] == [b"4", b"3", b"2", b"1"]


def test_the_tail_of_a_log_shows_the_message_of_an_exception_and_not_its_trace(tmp_path: Path) -> None:
    path = tmp_path / "service.log"
    trace = "Traceback (most recent call last):\n  File ...\nValueError: no such thing"
    path.write_text(json.dumps({"event": "service.crashed", "exception": trace}) + "\nplain text\n")
    assert log_tail(path) == "  service.crashed: ValueError: no such thing\n  plain text"


def test_a_pid_is_the_same_process_only_with_the_same_start() -> None:
    own = identity_of(os.getpid())
    assert is_alive(os.getpid(), own)
    assert not is_alive(os.getpid(), own + "0")
    assert not is_alive(os.getpid(), "")

"""A trainer exchanges, links and replaces what it announced: nothing from outside its directory is taken."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.services.worker.artifacts import beneath
from runspine.services.worker.artifacts.discovery import discover
from runspine.services.worker.artifacts.intents import Intent, Intents, UploadRefusedError, open_intent
from runspine.services.worker.artifacts.wandb_folder import find_tracking, read_small_json
from runspine.services.worker.process.output import OutputFile
from runspine.services.worker.protocol.redact import Redactor

RENAME_EXCHANGE = 2
SECRET = b"the password of the worker"
OWN = b"a file of the run"


@pytest.fixture(params=["openat2", "walk"])
def resolution(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the system call, and as on a kernel that lacks it."""
    if request.param == "walk":

        def missing(*_: object) -> int:
            raise NotImplementedError

        monkeypatch.setattr(beneath, "_openat2", missing)


class Place:
    """A run's directory, another one with a secret, and the intents of a worker."""

    def __init__(self, folder: Path) -> None:
        self.run_dir, self.outside = folder / "run", folder / "outside"
        self.run_dir.mkdir()
        self.outside.mkdir()
        (self.outside / "file").write_bytes(SECRET)
        self.intents = Intents(folder / "intents")

    def examine(self, path: str) -> Intent | None:
        event = {"kind": "model", "path": path}
        return self.intents.examine(event, "r1", 1, self.run_dir, Redactor({}))

    def refusal(self, path: str) -> str:
        with pytest.raises(UploadRefusedError) as refused:
            self.examine(path)
        return str(refused.value)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def exchange(one: Path, other: Path) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), RENAME_EXCHANGE) != 0:
        raise OSError(ctypes.get_errno(), "renameat2")


@contextlib.contextmanager
def exchanging(one: Path, other: Path) -> Iterator[None]:
    """Exchange two names as fast as the machine can, meanwhile."""
    stopped = threading.Event()

    def work() -> None:
        while not stopped.is_set():
            exchange(one, other)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def race(place: Place, seconds: float) -> tuple[int, int]:
    """Announce `a/file` while `a` is now a folder of the run and now a link to another; accepted, refused."""
    inner = place.run_dir / "a"
    inner.mkdir()
    (inner / "file").write_bytes(OWN)
    (place.run_dir / "b").symlink_to(place.outside)
    own = hashlib.sha256(OWN).hexdigest()
    accepted = refused = 0
    until = time.monotonic() + seconds
    with exchanging(inner, place.run_dir / "b"):
        while time.monotonic() < until:
            try:
                intent = place.examine("a/file")
            except UploadRefusedError:
                refused += 1
                continue
            assert intent is not None
            assert intent.digest == own, "the worker took a file from outside the run's directory"
            with open_intent(intent) as file:
                assert file.read() == OWN
            place.intents.forget([intent])
            accepted += 1
    return accepted, refused


def test_a_parent_exchanged_during_the_check_is_never_followed(resolution: None, place: Place) -> None:
    accepted, refused = race(place, 1.0)
    assert accepted > 0
    assert refused > 0


@pytest.mark.long
def test_a_parent_exchanged_for_a_minute_is_never_followed(place: Place) -> None:
    accepted, refused = race(place, 60.0)
    assert accepted > 1000
    assert refused > 1000


def test_each_kind_of_file_that_is_not_the_runs_own_is_refused_in_words(
    resolution: None, place: Place
) -> None:
    run_dir = place.run_dir
    os.link(place.outside / "file", run_dir / "hard")
    (run_dir / "link").symlink_to(place.outside / "file")
    (run_dir / "folder").mkdir()
    os.mkfifo(run_dir / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    with contextlib.chdir(run_dir):
        listener.bind("socket")
    (run_dir / "self").symlink_to("/proc/self")
    (run_dir / "loop").symlink_to("loop")
    assert "hard links" in place.refusal("hard")
    assert "outside the run's directory" in place.refusal("link")
    assert "not a regular file" in place.refusal("folder")
    assert "not a regular file" in place.refusal("pipe")
    assert place.refusal("socket")
    for path in ("self/environ", "/proc/self/environ", "/dev/zero", "../outside/file", "/etc/passwd"):
        assert "outside the run's directory" in place.refusal(path)
    assert "cannot be resolved" in place.refusal("loop")
    assert "cannot be resolved" in place.refusal("a\0b")
    listener.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes devices")
def test_a_device_in_the_directory_is_not_read(place: Place) -> None:
    try:
        os.mknod(place.run_dir / "zero", 0o20666, os.makedev(1, 5))
    except OSError as error:
        pytest.skip(f"no devices can be made here: {error}")
    assert place.refusal("zero")


def test_a_file_that_waits_to_be_uploaded_can_be_announced_again(place: Place) -> None:
    (place.run_dir / "weights").write_bytes(OWN)
    assert place.examine("weights")
    assert place.examine("weights"), "the worker's own link is no other name"


def test_what_was_checked_is_what_is_stored_whatever_has_its_name_by_then(place: Place) -> None:
    path = place.run_dir / "weights"
    path.write_bytes(OWN)
    intent = place.examine("weights")
    assert intent is not None
    path.unlink()
    path.symlink_to(place.outside / "file")
    with open_intent(intent) as file:
        assert file.read() == OWN


def test_without_links_the_announced_path_is_opened_through_no_symlink(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", no_links)
    path = place.run_dir / "a" / "weights"
    path.parent.mkdir()
    path.write_bytes(OWN)
    intent = place.examine("a/weights")
    assert intent is not None
    assert not intent.link
    path.unlink()
    path.parent.rmdir()
    path.parent.symlink_to(place.outside)
    (place.outside / "weights").write_bytes(SECRET)
    with pytest.raises(beneath.NotBeneathError):
        open_intent(intent)


def test_small_files_and_listings_are_read_through_no_symlink(resolution: None, place: Place) -> None:
    (place.outside / "latest-run.json").write_text('{"id": "secret"}')
    (place.outside / "run-20200101_000000-secret").mkdir()
    (place.outside / "clip.mp4").write_bytes(SECRET)
    (place.run_dir / "wandb").symlink_to(place.outside)
    (place.run_dir / "videos").symlink_to(place.outside)
    assert find_tracking(place.run_dir) is None
    assert read_small_json(place.run_dir, "wandb/latest-run.json") is None
    assert discover(place.run_dir).files == []


def test_copies_of_the_output_replace_links_and_pipes_of_the_trainer(place: Place) -> None:
    (place.run_dir / "stdout.log").symlink_to(place.outside / "file")
    os.mkfifo(place.run_dir / "stderr.log")
    for name in ("stdout.log", "stderr.log"):
        with OutputFile(place.run_dir / name) as file:
            file.write("a line")
        assert (place.run_dir / name).read_text() == "a line\n"
    assert (place.outside / "file").read_bytes() == SECRET


def test_a_relative_directory_is_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    place = Place(Path())
    (place.run_dir / "model").write_bytes(OWN)
    intent = place.examine("model")
    assert intent is not None
    with open_intent(intent) as file:
        assert file.read() == OWN

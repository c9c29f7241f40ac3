"""Virtualenvs of runs: a change is noticed, and key and requirements follow the platform."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from runspine.services.worker.virtualenvs.recipe import (
    PackageSources,
    PythonFound,
    failure_words,
    install_words,
    make_recipe,
)
from runspine.services.worker.virtualenvs.record import (
    NotKeptError,
    read_verified,
    remove_folder,
    write_record,
)
from runspine.services.worker.virtualenvs.torch_lines import without_platform
from runspine.wire.v1.spec_pb2 import Packages

PYTHON = PythonFound("/usr/bin/python3", "CPython 3.12.3")


@pytest.fixture
def built(tmp_path: Path) -> Path:
    site = tmp_path / "kept" / "venv" / "lib" / "python3.12" / "site-packages"
    (site / "apple-1.0.dist-info").mkdir(parents=True)
    (site / "apple-1.0.dist-info" / "METADATA").write_text("Name: Apple\nVersion: 1.0\n")
    (site / "apple.py").write_text("V = 1")
    (tmp_path / "kept" / "venv" / "lib64").symlink_to("lib")
    (tmp_path / "kept").chmod(0o700)
    assert write_record(tmp_path / "kept", PYTHON.version).packages == b"apple==1.0\n"
    return tmp_path / "kept"


def test_what_was_built_is_found_with_its_packages(built: Path) -> None:
    record, problem = read_verified(built)
    assert record is not None
    assert (record.python, record.packages, problem) == ("CPython 3.12.3", b"apple==1.0\n", "")
    assert read_verified(built.with_name("none")) == (None, "")


HARMS = {
    "changed": "apple.py was changed",
    "same size and time": "apple.py was changed",
    "added": "more.py was added",
    "removed": "files are missing",
    "link": "apple.py was added",
    "other link": "lib64 is another link",
    "writable": "others may write to it",
    "writable folder": "others may write to it",
    "writable top": "others may write to it",
    "record": "it cannot be read",
    "no record": "it cannot be read",
}


@pytest.mark.parametrize("harm", HARMS)
def test_any_change_is_noticed(built: Path, harm: str) -> None:
    site = next(built.glob("venv/lib/python3*/site-packages"))
    module = site / "apple.py"
    status = module.stat()
    module.chmod(0o644)
    match harm:
        case "changed":
            module.write_text("V = 10")
        case "same size and time":
            module.write_text("V = 9")
            os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns))
        case "added":
            (site / "more.py").write_text("")
        case "removed":
            module.unlink()
        case "link":
            module.unlink()
            module.symlink_to("/etc/hostname")
        case "other link":
            (built / "venv" / "lib64").unlink()
            (built / "venv" / "lib64").symlink_to("/usr/lib")
        case "writable":
            module.chmod(0o666)
        case "writable folder":
            site.chmod(0o777)
        case "writable top":
            built.chmod(0o777)
        case "record":
            (built / "record.json").write_text("{}")
        case "no record":
            (built / "record.json").unlink()
    record, problem = read_verified(built)
    assert record is None
    if harm == "link":
        assert "apple.py is another link" in problem
    else:
        assert HARMS[harm] in problem


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_a_file_of_another_user_is_noticed(built: Path) -> None:
    os.chown(next(built.glob("venv/lib/python3*/site-packages/apple.py")), 12345, 12345)
    assert "belongs to another user" in read_verified(built)[1]


def test_after_a_restart_of_the_machine_digests_are_compared_and_recorded_again(built: Path) -> None:
    known = json.loads((built / "record.json").read_text())
    stamps = {name: [0, *entry[1:]] if name == "." else entry for name, entry in known["files"].items()}
    (built / "record.json").write_text(json.dumps({**known, "boot": "another", "files": stamps}))
    assert read_verified(built)[1] == ""
    assert json.loads((built / "record.json").read_text())["boot"] == known["boot"]
    module = next(built.glob("venv/lib/python3*/site-packages/apple.py"))
    (built / "record.json").write_text(json.dumps({**known, "boot": "another"}))
    module.chmod(0o644)
    module.write_text("V = 9")
    assert "apple.py was changed" in read_verified(built)[1]


def test_what_is_no_file_is_not_kept_and_any_folder_can_be_removed(tmp_path: Path) -> None:
    (tmp_path / "kept" / "venv").mkdir(parents=True)
    os.mkfifo(tmp_path / "kept" / "venv" / "pipe")
    with pytest.raises(NotKeptError, match="pipe is neither a file"):
        write_record(tmp_path / "kept", "")
    here = os.open(tmp_path / "kept", os.O_RDONLY)
    try:
        for _ in range(1500):
            os.mkdir("d", dir_fd=here)
            below = os.open("d", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
    finally:
        os.close(here)
    remove_folder(tmp_path / "kept")
    assert not (tmp_path / "kept").exists()


def test_the_key_follows_lock_python_and_platform_and_nothing_else() -> None:
    packages = Packages(tree="ab" * 32, source="a")
    sources = PackageSources()
    key = make_recipe(packages, PYTHON, "x86_64 glibc-2.36", sources).key
    assert key == make_recipe(Packages(tree="ab" * 32), PYTHON, "x86_64 glibc-2.36", sources).key
    others = [
        make_recipe(Packages(tree="cd" * 32), PYTHON, "x86_64 glibc-2.36", sources),
        make_recipe(
            packages, PythonFound("/usr/bin/python3", "CPython 3.12.4"), "x86_64 glibc-2.36", sources
        ),
        make_recipe(packages, PYTHON, "aarch64 glibc-2.36", sources),
        make_recipe(packages, PYTHON, "x86_64 glibc-2.36", PackageSources(gpus=True, gpu_driver="570")),
        make_recipe(packages, PYTHON, "x86_64 glibc-2.36", PackageSources(gpus=True, gpu_driver="580")),
    ]
    assert len({key, *(each.key for each in others)}) == 6


@pytest.mark.parametrize(
    ("sources", "words"),
    [
        (PackageSources(), ["--torch-backend", "cpu"]),
        (PackageSources(gpus=True), ["--torch-backend", "auto"]),
        (PackageSources(torch="https://a/cu"), ["--index", "https://a/cu"]),
        (
            PackageSources(("https://a", "https://b")),
            ["--default-index", "https://a", "--index", "https://b"],
        ),
        (PackageSources(torch="none"), []),
        (PackageSources(("https://a",), ("/w",), offline=True), ["--no-index", "--find-links", "/w"]),
    ],
)
def test_indexes_and_torch_are_those_of_the_settings(sources: PackageSources, words: list[str]) -> None:
    recipe = make_recipe(Packages(tree="ab" * 32), PYTHON, "x", sources)
    given = install_words(recipe, sources, "p", "r.txt", wheels=True)
    assert given[given.index("r.txt") + 1 :] == words
    assert "--no-build" in given
    assert "--no-build" not in install_words(recipe, sources, "p", "r.txt", wheels=False)


def test_torch_is_freed_of_its_platform_and_other_packages_keep_their_digests() -> None:
    text = (
        "numpy==2.4.6 \\\n    --hash=sha256:aa\n"
        "torch==2.13.0+cu130 ; python_version > '3' \\\n    --hash=sha256:bb \\\n    --hash=sha256:cc\n"
        "nvidia-cublas-cu12==12.8.4.1\ntriton==3.5.0\nnvidia-ml-py==13.0\n"
    )
    lines = without_platform(text).split("\n")
    assert [" ".join(line.split()) for line in lines if line] == [
        "numpy==2.4.6 --hash=sha256:aa",
        "torch==2.13.0 ; python_version > '3'",
        "nvidia-ml-py==13.0",
    ]
    assert without_platform("triton==3\n") == "triton==3\n"


def test_a_failure_begins_at_its_first_error_and_hides_paths_of_the_host() -> None:
    output = "Using Python at /srv/w/.draft-1/out\nerror: No solution\n  cause: /srv/w/.draft-1/r.txt\n"
    assert failure_words(output, (("/srv/w/.draft-1/", ""),)) == "error: No solution\n  cause: r.txt"
    assert failure_words("", ()) == "uv ended without a message"
    assert PackageSources(("https://me:pw@a/simple",)).has_credentials
    assert not PackageSources(("https://a/simple",)).has_credentials

"""Snapshots of project folders: which files, which refusals, and what is read again."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

from runspine.code.digest_cache import DigestCache
from runspine.code.git_state import without_credentials
from runspine.code.ignore import is_ignored, read_patterns
from runspine.code.project_files import CodeRefusedError, ProjectFiles, project_files
from runspine.code.snapshot import CodeSnapshot, project_root, take_snapshot
from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home
from tests.kit.waiting import until

KEY = "-----BEGIN OPENSSH PRIVATE KEY-----\nabc\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    write(folder, {"train.py": "print(1)", "pkg/__init__.py": "", "data/small.csv": "1,2"})
    return folder


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "init.defaultBranch=main"]
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *words], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(folder: Path) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "one")
    return git(folder, "rev-parse", "HEAD")


def paths(snapshot: CodeSnapshot) -> list[str]:
    return [entry.path for entry in snapshot.tree.entries]


def test_a_work_tree_is_taken_as_it_is_now_with_untracked_files_and_without_ignored_ones(
    project: Path,
) -> None:
    git(project, "init", "-q")
    write(project, {".gitignore": "*.log\nruns/\n", "gone.py": "x"})
    head = commit(project)
    write(project, {"train.py": "print(2)", "new.py": "y", "a.log": "z", "runs/1": "z"})
    (project / "gone.py").unlink()
    found = take_snapshot(project)
    assert paths(found) == [".gitignore", "data/small.csv", "new.py", "pkg/__init__.py", "train.py"]
    assert found.git is not None
    assert (found.git.commit, found.git.branch, found.git.dirty) == (head, "main", True)
    assert b"+print(2)" in found.git.diff
    assert project_root(project / "pkg") == project.resolve()


def test_a_folder_without_git_obeys_its_ignore_files(project: Path) -> None:
    write(
        project,
        {
            ".gitignore": "*.log\n/build\n",
            ".runspineignore": "data/\n",
            "build/x": "",
            "pkg/build/y.py": "",
            "pkg/.gitignore": "!keep.log\n",
            "pkg/keep.log": "",
            "a.log": "",
            "env/pyvenv.cfg": "",
            "env/lib/x.py": "",
            "__pycache__/x.pyc": "",
        },
    )
    assert paths(take_snapshot(project)) == [
        ".gitignore",
        ".runspineignore",
        "pkg/.gitignore",
        "pkg/__init__.py",
        "pkg/build/y.py",
        "pkg/keep.log",
        "train.py",
    ]


def test_runspineignore_leaves_out_tracked_files_too(project: Path) -> None:
    git(project, "init", "-q")
    write(project, {".runspineignore": "data\n"})
    commit(project)
    assert paths(take_snapshot(project)) == [".runspineignore", "pkg/__init__.py", "train.py"]


@pytest.mark.parametrize(
    "lines",
    ["*.py", "/a.py", "a/", "a/**", "**/b", "a/*/c", "!*.py\n*.txt", "*.txt\n!keep.txt", "b?d", "[ab].py",
     "a/b\n!a/b/c", "\\#x", "a\\ b", "[!a].py", "**", "x/**/y", "  ", "# no"],
)  # fmt: skip
def test_patterns_mean_what_they_mean_to_git(lines: str, tmp_path: Path) -> None:
    names = [
        "a.py",
        "b.py",
        "a/a.py",
        "a/b/c",
        "x/y",
        "x/1/2/y",
        "keep.txt",
        "n.txt",
        "bcd",
        "#x",
        "a b",
        "b/z",
    ]
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text(lines + "\n")
    write(tmp_path, dict.fromkeys((name for name in names if name != "a b"), ""))
    listed = git(
        tmp_path, "-c", "core.quotepath=off", "ls-files", "--others", "--exclude-standard"
    ).splitlines()
    patterns = read_patterns(lines)
    kept = {name for name in names if name != "a b" and not is_ignored(patterns, name)}
    assert kept == set(listed) - {".gitignore"}


@pytest.mark.parametrize("name", [".env", ".env.local", "id_ed25519", ".netrc", "deploy/credentials.json"])
def test_a_file_with_the_name_of_a_secret_is_refused_by_name(name: str, project: Path) -> None:
    write(project, {name: "TOKEN=1"})
    with pytest.raises(CodeRefusedError, match=r"secrets.*\.runspineignore") as refused:
        take_snapshot(project)
    assert name in str(refused.value)
    write(project, {".runspineignore": name})
    assert name not in paths(take_snapshot(project))
    write(project, {".runspineignore": f"!{name}"})
    assert name in paths(take_snapshot(project))


def test_a_private_key_under_any_name_is_refused_and_a_template_is_not(project: Path) -> None:
    write(project, {".env.example": "TOKEN=", "cert.pem": "-----BEGIN CERTIFICATE-----\n"})
    assert ".env.example" in paths(take_snapshot(project))
    write(project, {"server": KEY})
    with pytest.raises(CodeRefusedError, match="server is a private key"):
        take_snapshot(project)


def test_five_gigabytes_of_data_are_refused_in_words_within_two_seconds(project: Path) -> None:
    (project / "big").mkdir()
    for number in range(5):
        with (project / "big" / f"{number}.bin").open("wb") as file:
            file.truncate(1 << 30)
    began = time.monotonic()
    with pytest.raises(CodeRefusedError) as refused:
        take_snapshot(project)
    assert time.monotonic() - began < 2
    assert "big/0.bin (1,024.0 MiB)" in str(refused.value)
    assert ".runspineignore" in str(refused.value)
    assert "--no-code" in str(refused.value)


def test_too_many_files_are_refused_with_the_folder_that_has_most(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runspine.code.project_files.MAX_FILES", 10)
    write(project, {f"many/{number}": "" for number in range(20)})
    with pytest.raises(CodeRefusedError, match=r"most in many/ \(20 files"):
        take_snapshot(project)


def test_links_inside_are_kept_and_links_out_of_the_folder_are_refused(project: Path) -> None:
    (project / "inside").symlink_to("data/small.csv")
    assert "inside" in paths(take_snapshot(project))
    (project / "outside").symlink_to("/etc/passwd")
    with pytest.raises(CodeRefusedError, match="outside is a link to /etc/passwd, out of the folder"):
        take_snapshot(project)


def test_pipes_and_names_that_are_not_utf8_are_refused(project: Path) -> None:
    os.mkfifo(project / "pipe")
    with pytest.raises(CodeRefusedError, match="pipe is neither a file nor a link"):
        take_snapshot(project)
    (project / "pipe").unlink()
    (project / os.fsdecode(b"caf\xe9.py")).write_text("")
    with pytest.raises(CodeRefusedError, match="not a UTF-8 name"):
        take_snapshot(project)


def test_unchanged_files_are_not_read_again_and_a_changed_one_is(project: Path) -> None:
    first = take_snapshot(project)
    assert first.read_files == 3
    # Just written files may still change without another time stamp: they are read until they are older.
    assert take_snapshot(project).read_files == 3
    wait_for_old_ctime(project)
    take_snapshot(project)
    again = take_snapshot(project)
    assert (again.read_files, again.tree.digest) == (0, first.tree.digest)
    write(project, {"train.py": "print(3)"})
    changed = take_snapshot(project)
    assert (changed.read_files, changed.tree.digest != first.tree.digest) == (1, True)


def test_a_damaged_cache_of_digests_costs_time_only(project: Path, tmp_path: Path) -> None:
    digest = take_snapshot(project).tree.digest
    cache = DigestCache(project.resolve())
    cache._path.parent.mkdir(parents=True, exist_ok=True)
    for content in ("", "[]", '{"version": 1, "files": 3}', "{"):
        cache._path.write_text(content)
        assert take_snapshot(project).tree.digest == digest


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("https://me:ghp_token@example.org/x.git", "https://example.org/x.git"),
        ("https://ghp_token@example.org/x.git", "https://example.org/x.git"),
        ("https://example.org/x.git?access_token=s", "https://example.org/x.git"),
        ("ssh://git@example.org/x.git", "ssh://example.org/x.git"),
        ("git@example.org:x.git", "git@example.org:x.git"),
        ("/srv/x.git", "/srv/x.git"),
    ],
)
def test_credentials_are_struck_out_of_a_remote(given: str, kept: str) -> None:
    assert without_credentials(given) == kept


def test_a_file_that_changes_while_it_is_read_is_reported(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def then_grow(root: Path, *, git: bool) -> ProjectFiles:
        found = project_files(root, git=git)
        (root / "train.py").write_text("print('longer than before')")
        return found

    monkeypatch.setattr("runspine.code.snapshot.project_files", then_grow)
    with pytest.raises(CodeRefusedError, match=r"train\.py was changed while it was read: submit again"):
        take_snapshot(project)


def wait_for_old_ctime(folder: Path) -> None:
    newest = max(path.lstat().st_ctime_ns for path in folder.rglob("*"))
    until(lambda: time.time_ns() - newest > 2_100_000_000, 10)


def test_the_home_of_a_stack_inside_a_project_is_no_code(project: Path) -> None:
    home = Home.at(project / "var")
    home.prepare()
    load_credentials(home)
    assert not [file.path for file in project_files(project, git=False).found if file.path.startswith("var")]
    subprocess.run(["git", "init", "-q", project], check=True)
    assert not [file.path for file in project_files(project, git=True).found if file.path.startswith("var")]

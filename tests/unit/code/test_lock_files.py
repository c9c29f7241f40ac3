"""Packages of a run as files: what is taken, what is refused, and what a virtualenv is captured as."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspine.code.captured_packages import capture_packages
from runspine.code.lock_files import listed_packages, read_package_files
from runspine.errors import InvalidError
from runspine.services.orchestrator.core.packages_rules import packages_violations
from runspine.spec.run_file import apply_overrides, parse
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import Packages, RunSpec

TREE = "ab" * 32
RUNNERS = {"script": RunnerInfo(name="script", takes_command=True), "builtin": RunnerInfo(name="builtin")}


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_txt", ".txt")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_requirements_are_taken_with_all_that_they_include(tmp_path: Path) -> None:
    write(tmp_path, dev_txt="-r base.txt\npytest==9\n", base_txt="-c more/limits.txt\nnumpy==2 # exact\n")
    write(tmp_path, more__limits_txt="scipy==1\n", other_txt="not included")
    found = read_package_files("dev.txt", tmp_path)
    assert sorted(found.files) == [
        "files/base.txt",
        "files/dev.txt",
        "files/more/limits.txt",
        "requirements.txt",
    ]
    assert found.files["requirements.txt"] == b"-r files/dev.txt\n"
    assert (found.source, found.notes) == ("dev.txt", ())
    assert read_package_files("base.txt", write(tmp_path, base_txt="a==1\n")).files == {
        "requirements.txt": b"a==1\n"
    }


def test_packages_without_an_exact_version_are_named(tmp_path: Path) -> None:
    write(
        tmp_path,
        requirements_txt="numpy>=2\ntorch==2.*\na==1 ; python_version > '3'\nb @ https://x/b.whl\nc\n",
    )
    (note,) = read_package_files(".", tmp_path).notes
    assert note.startswith("packages: 3 of 5 have no exact version (numpy>=2, torch==2.*, c)")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("-e .", "line 1: -e . is on this machine alone"),
        ("a==1\n\n./wheels/a.whl", "line 3: ./wheels/a.whl is on this machine alone"),
        ("a @ file:///srv/a.whl", "is on this machine alone"),
        ("-r ../outside.txt", "is not below the folder"),
        ("-r /etc/passwd", "is not below the folder"),
        ("-r missing.txt", "cannot be read"),
    ],
)
def test_what_a_worker_cannot_have_is_refused_with_its_line(tmp_path: Path, text: str, what: str) -> None:
    write(tmp_path, requirements_txt=text)
    with pytest.raises(InvalidError) as refused:
        read_package_files("requirements.txt", tmp_path)
    assert what in refused.value.violations[0].message


def test_a_project_needs_its_lock(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[project]")
    with pytest.raises(InvalidError) as refused:
        read_package_files("pyproject.toml", tmp_path)
    assert "`uv lock` writes one" in refused.value.violations[0].message
    (tmp_path / "uv.lock").write_text("version = 1")
    for choice in (".", "uv.lock", "pyproject.toml"):
        found = read_package_files(choice, tmp_path)
        assert (sorted(found.files), found.source) == (["pyproject.toml", "uv.lock"], "uv.lock")


def test_a_virtualenv_is_captured_as_exact_versions_of_what_others_can_install(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("home = /usr/bin\nversion_info = 3.11.7\n")
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    origins = {
        "numpy": None,
        "pip": None,
        "torch": None,
        "mine": {"url": "file:///home/me/mine", "dir_info": {"editable": True}},
        "fork": {"url": "https://example.org/f.git", "vcs_info": {"vcs": "git", "commit_id": "abc"}},
        "direct": {"url": "https://example.org/d.whl", "archive_info": {}},
    }
    for name, origin in origins.items():
        info = site / f"{name}-1.0.dist-info"
        info.mkdir(parents=True)
        version = "2.1+cu130" if name == "torch" else "1.0"
        (info / "METADATA").write_text(f"Name: {name}\nVersion: {version}\n")
        if origin is not None:
            (info / "direct_url.json").write_text(json.dumps(origin))
    found = capture_packages({"VIRTUAL_ENV": str(tmp_path)})
    assert found.files["requirements.txt"].decode().splitlines() == [
        "direct @ https://example.org/d.whl",
        "fork @ git+https://example.org/f.git@abc",
        "numpy==1.0",
        "torch==2.1",
    ]
    assert (found.source, found.python) == ("capture", "3.11")
    assert "without mine" in found.notes[0]
    with pytest.raises(InvalidError):
        capture_packages({"VIRTUAL_ENV": str(tmp_path / "none")})


def test_a_list_is_packages_and_nothing_else() -> None:
    assert listed_packages(["a==1", "b"]).files == {"requirements.txt": b"a==1\nb\n"}
    for wrong in ("", "-r x.txt", "--index-url=x", "a\nb", "../x", "."):
        with pytest.raises(InvalidError):
            listed_packages([wrong])


def test_packages_in_a_run_file_are_a_word_a_list_or_fields(tmp_path: Path) -> None:
    def read(value: str) -> tuple[str | tuple[str, ...], Packages]:
        text = f"runner: script\ncommand: [true]\npackages: {value}\n"
        file = parse(text, source="f", folder=tmp_path)
        return file.packages, file.specs[0].packages

    assert read("requirements.txt") == ("requirements.txt", Packages())
    assert read("[a==1, b]") == (("a==1", "b"), Packages())
    extras = Packages(source="uv.lock", extras=["gpu"])
    assert read("{source: uv.lock, extras: [gpu]}") == ("uv.lock", extras)
    assert read(f"{{tree: {TREE}, source: uv.lock}}") == ("", Packages(tree=TREE, source="uv.lock"))
    spec = RunSpec(runner="script", command=["true"], packages=Packages(tree=TREE))
    assert not apply_overrides(spec, ["packages=none"]).HasField("packages")
    with pytest.raises(InvalidError, match="only none can be set here"):
        apply_overrides(spec, ["packages=requirements.txt"])


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (RunSpec(runner="builtin", packages=Packages(tree=TREE)), "spec.packages"),
        (RunSpec(runner="script", packages=Packages(source="x")), "spec.packages.tree"),
        (RunSpec(runner="script", packages=Packages(tree="../" + TREE[3:])), "spec.packages.tree"),
        (RunSpec(runner="script", packages=Packages(tree=TREE, python="3.12; x")), "spec.packages.python"),
        (RunSpec(runner="script", packages=Packages(tree=TREE, extras=["--config"])), "spec.packages.extras"),
        (RunSpec(runner="script", packages=Packages(tree=TREE, groups=["a b"])), "spec.packages.groups"),
        (RunSpec(runner="script", packages=Packages(tree=TREE, source="\n")), "spec.packages.source"),
    ],
)
def test_packages_that_cannot_be_used_are_refused_with_their_field(spec: RunSpec, field: str) -> None:
    assert [violation.field for violation in packages_violations(spec, RUNNERS)] == [field]

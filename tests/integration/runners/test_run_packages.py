"""Packages of runs on a worker: built once, shared, verified before use, and never half."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from runspine.wire.v1.facts_pb2 import EXITED, NOT_STARTED, AttemptExited
from runspine.wire.v1.spec_pb2 import Packages
from tests.kit.code import store_tree
from tests.kit.samples.wheels import write_source, write_wheel
from tests.kit.waiting import eventually
from tests.kit.worker_with_s3 import Bay

SHOW = "import apple, sys; print('apple', apple.V, sys.prefix, flush=True)"


class Wheels:
    """A folder with wheels, and the settings by which a worker installs from it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        for version in ("1.0", "2.0"):
            modules = {"apple.py": f"V = {version!r}\ndef main(): print('script of apple', V)\n"}
            write_wheel(folder, "apple", version, modules, "apple = apple:main")

    def worker(self, bay: Bay, name: str = "w1", slots: int = 2, **settings: str) -> Any:
        """A worker that installs from this folder alone."""
        offline = {"RUNSPINE_PACKAGE_WHEELS": str(self.folder), "RUNSPINE_PACKAGE_OFFLINE": "true"}
        return bay.worker(name, slots, **{**offline, **settings})


@pytest.fixture
def wheels(tmp_path: Path) -> Wheels:
    return Wheels(tmp_path / "wheels")


async def listed(bay: Bay, *lines: str, **fields: str) -> Packages:
    text = "".join(f"{line}\n" for line in lines)
    tree = await store_tree(await bay.s3.ready(), {"requirements.txt": text.encode()})
    return Packages(tree=tree.digest, source="requirements.txt", **fields)  # type: ignore[arg-type]


def kept(bay: Bay, worker: str = "w1") -> list[Path]:
    folder = bay.folder / worker / "virtualenvs"
    return [path for path in folder.iterdir() if len(path.name) == 64] if folder.is_dir() else []


def drafts(bay: Bay) -> list[Path]:
    return list((bay.folder / "w1" / "virtualenvs").glob(".draft-*"))


def builds(bay: Bay) -> int:
    return sum(worker.log().count("virtualenv.built") for worker in bay.workers)


async def ran(bay: Bay, run_id: str) -> AttemptExited:
    exited = await bay.exited(run_id)
    assert (exited.outcome, exited.exit_code) == (EXITED, 0), (exited, await bay.texts(run_id))
    return exited


async def test_ten_runs_with_one_new_lock_on_two_workers_are_one_build(bay: Bay, wheels: Wheels) -> None:
    packages = await listed(bay, "apple==1.0")
    for name in ("w1", "w2"):
        wheels.worker(bay, name, 5, RUNSPINE_VIRTUALENV_DIR=str(bay.folder / "shared"))
    runs = [await bay.submit("python", "-c", SHOW, packages=packages) for _ in range(10)]
    for run_id in runs:
        await ran(bay, run_id)
        assert any(text.startswith("apple 1.0") for text in await bay.texts(run_id))
    assert builds(bay) == 1
    started = [(await bay.start_of(run_id, 1)) for run_id in runs]
    assert len({each.provenance.virtualenv for each in started}) == 1
    assert {each.provenance.package_count for each in started} == {1}


@pytest.mark.parametrize("sandbox", ["auto", pytest.param("off", marks=pytest.mark.long)])
async def test_programs_of_the_packages_run_and_nothing_is_written_next_to_them(
    bay: Bay, wheels: Wheels, sandbox: str
) -> None:
    wheels.worker(bay, RUNSPINE_WORKER_SANDBOX=sandbox)
    run_id = await bay.submit("apple", packages=await listed(bay, "apple>1"))
    await ran(bay, run_id)
    assert "script of apple 2.0" in await bay.texts(run_id)
    write = "import apple, pathlib; pathlib.Path(apple.__file__).with_name('more.py').write_text('')"
    if sandbox == "auto":
        run_id = await bay.submit("python", "-c", write, packages=await listed(bay, "apple>1"))
        assert (await bay.exited(run_id)).exit_code != 0
        assert any("Read-only file system" in text for text in await bay.texts(run_id))


async def test_a_failed_build_is_the_runs_reason_in_the_resolvers_words(bay: Bay, wheels: Wheels) -> None:
    wheels.worker(bay)
    run_id = await bay.submit("python", "-c", SHOW, packages=await listed(bay, "apple==3.0"))
    exited = await bay.exited(run_id)
    assert exited.outcome == NOT_STARTED
    assert exited.reason.startswith("packages: requirements.txt cannot be installed: error:")
    assert "there is no version of apple==3.0" in exited.reason
    assert str(bay.folder) not in exited.reason
    assert not kept(bay)
    assert not drafts(bay)
    other = await bay.submit("true", packages=await listed(bay, "apple", python="3.4"))
    assert "Python 3.4 is not on this worker" in (await bay.exited(other)).reason


async def test_a_poisoned_virtualenv_is_noticed_before_use(bay: Bay, wheels: Wheels) -> None:
    wheels.worker(bay)
    packages = await listed(bay, "apple==1.0")
    await ran(bay, await bay.submit("python", "-c", SHOW, packages=packages))
    module = next(kept(bay)[0].glob("venv/lib/python3*/site-packages/apple.py"))
    status = module.stat()
    module.chmod(0o644)
    module.write_text(module.read_text().replace("1.0", "9.9"))
    module.chmod(status.st_mode)
    os.utime(module, ns=(status.st_atime_ns, status.st_mtime_ns))
    run_id = await bay.submit("python", "-c", SHOW, packages=packages)
    await ran(bay, run_id)
    assert any(text.startswith("apple 1.0") for text in await bay.texts(run_id))
    assert any("is built again" in text for text in await bay.remarks(run_id))
    assert builds(bay) == 2


SPY = """
import os, pathlib, sys, urllib.request

def build_wheel(folder, config_settings=None, metadata_directory=None):
    sys.path.insert(0, os.getcwd())
    seen = ["%s=%s" % pair for pair in os.environ.items()]
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            seen.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            pass
    for place in PLACES:
        try:
            pathlib.Path(place).write_text("poison")
            seen.append("written " + place)
        except OSError as error:
            pass
    import base64, hashlib, zipfile
    info = "spy-1.0.dist-info"
    with zipfile.ZipFile(os.path.join(folder, "spy-1.0-py3-none-any.whl"), "w") as archive:
        archive.writestr("spy.py", "SEEN = %r" % "\\n".join(seen))
        archive.writestr(info + "/METADATA", "Metadata-Version: 2.1\\nName: spy\\nVersion: 1.0\\n")
        archive.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(info + "/RECORD", "")
    return "spy-1.0-py3-none-any.whl"
"""


async def test_a_build_from_source_sees_no_credentials_and_writes_nowhere_else(
    bay: Bay, wheels: Wheels, tmp_path: Path
) -> None:
    places = [str(bay.folder / "w1" / name) for name in ("p", "virtualenvs/p", "virtualenvs/downloads/p")]
    places += [str(wheels.folder / "p"), str(tmp_path / "p"), os.path.expanduser("~/.runspine-p")]
    write_source(wheels.folder, "spy", "1.0", f"PLACES = {places!r}\n{SPY}", {})
    wheels.worker(bay, RUNSPINE_WORKER_SANDBOX="auto", RUNSPINE_OWN="hunter2-of-it", WANDB_KEY="k" * 40)
    show = "import spy; print(spy.SEEN)"
    run_id = await bay.submit("python", "-c", show, packages=await listed(bay, "spy", "apple==1.0"))
    await ran(bay, run_id)
    seen = "\n".join(await bay.texts(run_id))
    assert "UV_CACHE_DIR=" in seen
    secrets = [value for name, value in bay.s3.environment.items() if "SECRET" in name]
    assert secrets
    for secret in (*secrets, "hunter2-of-it", "k" * 40, "RUNSPINE_S3", "RUNSPINE_NATS"):
        assert secret not in seen
    assert not [place for place in places if os.path.exists(place)]


@pytest.mark.long
async def test_nothing_is_built_from_source_without_a_sandbox(bay: Bay, wheels: Wheels) -> None:
    write_source(wheels.folder, "spy", "1.0", f"PLACES = []\n{SPY}", {})
    wheels.worker(bay)
    run_id = await bay.submit("python", "-c", SHOW, packages=await listed(bay, "spy"))
    reason = (await bay.exited(run_id)).reason
    assert "builds nothing from source, because it has no sandbox" in reason


@pytest.mark.long
async def test_virtualenvs_that_were_not_used_for_longest_are_evicted_and_those_in_use_are_not(
    bay: Bay, wheels: Wheels
) -> None:
    wheels.worker(bay, RUNSPINE_VIRTUALENV_CACHE_MIB="0")
    wait = (
        "import apple, pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)\nimport apple"
    )
    busy = await bay.submit("python", "-c", wait, packages=await listed(bay, "apple==1.0"))
    await bay.start_of(busy, 1)
    first = kept(bay)
    await ran(bay, await bay.submit("python", "-c", SHOW, packages=await listed(bay, "apple==2.0")))
    assert first[0].exists()
    (bay.folder / "w1" / "runs" / busy / "attempt-1" / "go").touch()
    await ran(bay, busy)
    await ran(bay, await bay.submit("python", "-c", SHOW, packages=await listed(bay, "apple<2")))
    assert not first[0].exists()


SLOW = SPY.replace("    seen = [", "    import time; time.sleep(1.0)\n    seen = [", 1)
WHOLE = "import apple, spy, wide; print('whole', apple.V, len(wide.NAMES), bool(spy.SEEN), flush=True)"


async def killed_while_it_builds(bay: Bay, wheels: Wheels, kills: int) -> None:
    """Kill the worker in the middle of a build, at a later moment each time; then the run has all of it."""
    write_source(wheels.folder, "spy", "1.0", f"PLACES = []\n{SLOW}", {})
    modules = {f"wide/m{n}.py": f"V = {n}\n" for n in range(300)}
    modules["wide/__init__.py"] = "import os\nNAMES = [n for n in os.listdir(__path__[0]) if n[0] == 'm']\n"
    write_wheel(wheels.folder, "wide", "1.0", modules)
    worker = wheels.worker(bay, RUNSPINE_WORKER_SANDBOX="auto")
    for number in range(kills):
        packages = await listed(bay, "apple==1.0", "wide", "spy", f"# {number}")
        run_id = await bay.submit("python", "-c", WHOLE, packages=packages)
        await eventually(lambda: bool(drafts(bay)))
        await asyncio.sleep((number * 0.37) % 3.0)
        worker.kill()
        worker = wheels.worker(bay, RUNSPINE_WORKER_SANDBOX="auto")
        exited = await bay.exited(run_id)
        assert (exited.outcome, exited.exit_code) == (EXITED, 0), f"kill {number}: {exited}"
        assert "whole 1.0 300 True" in await bay.texts(run_id)
    await eventually(lambda: not drafts(bay))


async def test_no_run_starts_with_half_its_packages_when_its_worker_is_killed(
    bay: Bay, wheels: Wheels
) -> None:
    await killed_while_it_builds(bay, wheels, 1)


@pytest.mark.long
@pytest.mark.timeout(1200)
async def test_no_run_starts_with_half_its_packages_after_thirty_kills(bay: Bay, wheels: Wheels) -> None:
    await killed_while_it_builds(bay, wheels, 30)


async def test_a_project_with_its_lock_is_installed_as_locked_without_the_project(
    bay: Bay, wheels: Wheels, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(
        '[project]\nname = "mine"\nversion = "1"\nrequires-python = ">=3.11"\ndependencies = ["apple<2"]\n'
        "[dependency-groups]\ndev = ['nothing-like-it']\nmore = []\n[tool.uv]\ndefault-groups = []\n"
        "[project.optional-dependencies]\nall = ['wide']\n"
    )
    (project / "uv.lock").write_text(LOCK)
    write_wheel(wheels.folder, "wide", "1.0", {"wide.py": ""})
    files = {name: (project / name).read_bytes() for name in ("pyproject.toml", "uv.lock")}
    tree = await store_tree(await bay.s3.ready(), files)
    wheels.worker(bay)
    names = "from importlib.metadata import distributions as d; print(*sorted(x.name for x in d()))"
    for extras, expected in ([], "apple"), (["all"], "apple wide"):
        packages = Packages(tree=tree.digest, source="uv.lock", extras=extras)
        run_id = await bay.submit("python", "-c", names, packages=packages)
        await ran(bay, run_id)
        assert expected in await bay.texts(run_id)


LOCK = """
version = 1
revision = 3
requires-python = ">=3.11"

[[package]]
name = "apple"
version = "1.0"
source = { registry = "https://pypi.org/simple" }

[[package]]
name = "mine"
version = "1"
source = { virtual = "." }
dependencies = [{ name = "apple" }]

[package.optional-dependencies]
all = [{ name = "wide" }]

[package.metadata]
requires-dist = [{ name = "apple", specifier = "<2" }, { name = "wide", marker = "extra == 'all'" }]
provides-extras = ["all"]

[[package]]
name = "wide"
version = "1.0"
source = { registry = "https://pypi.org/simple" }
"""

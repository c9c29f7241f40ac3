"""Minari datasets by their id: from Minari's folder on this machine, or downloaded by its package."""

from __future__ import annotations

import contextlib
import io
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from runspine.datasets.errors import DatasetError

PREFIX = "minari:"
FOLDER_VARIABLE = "MINARI_DATASETS_PATH"
# Until the first byte, and between two bytes of a download.
CONTACT_SECONDS, STALLED_SECONDS = 60.0, 120.0
POLL_SECONDS = 0.2
THREAD = "minari-download"
_ID = re.compile(r"(?:[A-Za-z0-9_][A-Za-z0-9_.-]*/){0,4}[A-Za-z0-9_][A-Za-z0-9_.-]*-v\d{1,4}\Z")
# Bytes so far, and in all; 0 when that is not known.
ReportBytes = Callable[[int, int], None]


def is_minari(text: str) -> bool:
    return text.startswith(PREFIX)


@contextlib.contextmanager
def minari_folder(text: str, report: ReportBytes) -> Iterator[Path]:
    """The folder of `minari:ID`, for the duration of the block. Raises DatasetError.

    A download goes to a folder of its own, so that one that was interrupted leaves nothing behind.
    """
    dataset_id = text.removeprefix(PREFIX)
    if not _ID.match(dataset_id):
        raise DatasetError(f"{dataset_id[:80]!r} is no id of a Minari dataset: such as D4RL/pen/human-v2")
    _require_package()
    own = _local_folder() / dataset_id
    if (own / "data").is_dir():
        yield own
        return
    with TemporaryDirectory(prefix="runspine-minari-", ignore_cleanup_errors=True) as scratch:
        _download(dataset_id, Path(scratch), report)
        yield Path(scratch) / dataset_id


def _require_package() -> None:
    try:
        import minari  # noqa: F401
    except ModuleNotFoundError as error:
        raise DatasetError(
            f"{PREFIX}… needs the package {error.name}: pip install 'runspine[corl]', or give a folder"
        ) from error


def _local_folder() -> Path:
    given = os.environ.get(FOLDER_VARIABLE)
    return Path(given) if given else Path.home() / ".minari" / "datasets"


def _download(dataset_id: str, folder: Path, report: ReportBytes) -> None:
    """Download in a thread and report the bytes on disk; a remote that does not answer is given up."""
    problems: list[str] = []
    total = [0]
    arguments = (dataset_id, folder, total, problems)
    worker = threading.Thread(target=_fetch, args=arguments, name=THREAD, daemon=True)
    worker.start()
    done, moved_at = 0, time.monotonic()
    while worker.is_alive():
        worker.join(POLL_SECONDS)
        size = _bytes_in(folder)
        if size != done:
            done, moved_at = size, time.monotonic()
        report(done, max(total[0], done) if total[0] else 0)
        if time.monotonic() - moved_at > (STALLED_SECONDS if done else CONTACT_SECONDS):
            problems.append("it does not answer")
            break
    if problems:
        raise DatasetError(
            f"{dataset_id} cannot be downloaded from Minari's remote: {problems[0]}. Without a network, copy "
            f"its folder here and give the path, or put it into {_local_folder()}"
        )
    size = _bytes_in(folder)
    report(size, size)


def _fetch(dataset_id: str, folder: Path, total: list[int], problems: list[str]) -> None:
    """Runs in a thread. What Minari prints is dropped; its folder is set for this call alone."""
    before = os.environ.get(FOLDER_VARIABLE)
    try:
        from minari.storage import hosting

        os.environ[FOLDER_VARIABLE] = str(folder)
        with contextlib.redirect_stdout(io.StringIO()):
            known = hosting.list_remote_datasets(prefix=dataset_id).get(dataset_id)
            if known is not None:
                # In MB, as Minari states it.
                total[0] = int(float(known.get("dataset_size") or 0) * 1e6)
            hosting.download_dataset(dataset_id)
    except Exception as error:  # noqa: BLE001 - its remotes raise errors of several packages
        problems.append(str(error).strip().partition("\n")[0][:300] or type(error).__name__)
    finally:
        if before is None:
            os.environ.pop(FOLDER_VARIABLE, None)
        else:
            os.environ[FOLDER_VARIABLE] = before


def _bytes_in(folder: Path) -> int:
    found = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):  # a draft that has just been renamed
            found += path.stat().st_size if path.is_file() else 0
    return found

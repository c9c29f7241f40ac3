"""Minari datasets by id, through Minari's own package and a remote that is a folder."""

from __future__ import annotations

import json
import shutil
import sys
import threading
from collections.abc import Iterable
from pathlib import Path

import pytest
from minari.storage import remotes
from minari.storage.remotes.cloud_storage import CloudStorage

from runspine.datasets import DatasetError, minari_source
from runspine.datasets.minari_folder import describe
from runspine.datasets.minari_source import minari_folder
from tests.kit.samples.pendulum import record

DATASET = "pendulum-v0"


class FolderRemote(CloudStorage):  # type: ignore[misc]
    """A remote of Minari in a folder of this machine."""

    def __init__(self, name: str, token: str | None) -> None:
        self.folder = Path(name)

    def list_datasets(self, prefix: str | None = None) -> Iterable[str]:
        return [DATASET] if DATASET.startswith(prefix or "") else []

    def get_dataset_metadata(self, dataset_id: str) -> dict[str, object]:
        found: dict[str, object] = json.loads(
            (self.folder / dataset_id / "data" / "metadata.json").read_text()
        )
        return {**found, "dataset_id": dataset_id}

    def download_dataset(self, dataset_id: str, path: Path) -> None:
        shutil.copytree(self.folder / dataset_id, path / dataset_id)

    def upload_dataset(self, dataset_id: str) -> None: ...
    def list_namespaces(self) -> Iterable[str]:
        return []

    def download_namespace_metadata(self, namespace: str, path: Path) -> None: ...
    def upload_namespace(self, namespace: str) -> None: ...


class UnreachableRemote(FolderRemote):
    """As without a network."""

    def list_datasets(self, prefix: str | None = None) -> Iterable[str]:
        raise ConnectionError("no route to host")


@pytest.fixture
def remote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the remote, with one dataset; Minari's own folder is empty."""
    record(tmp_path / "remote" / DATASET, 2)
    monkeypatch.setenv("MINARI_REMOTE", f"folder://{tmp_path / 'remote'}")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "local"))
    monkeypatch.setitem(remotes._registry, "folder", lambda: FolderRemote)
    return tmp_path / "remote"


def nothing(done: int, total: int) -> None: ...


def test_an_id_is_downloaded_into_a_folder_that_is_gone_afterwards(remote: Path, tmp_path: Path) -> None:
    reported: list[int] = []
    with minari_folder(f"minari:{DATASET}", lambda done, total: reported.append(done)) as folder:
        assert describe(folder).env == "Pendulum-v1"
        assert (folder / "data" / "main_data.hdf5").stat().st_size <= reported[-1]
    assert not folder.exists()
    assert not (tmp_path / "local" / DATASET).exists()


def test_an_id_that_is_on_this_machine_needs_no_remote(
    remote: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(remotes._registry, "folder", lambda: UnreachableRemote)
    shutil.copytree(remote / DATASET, tmp_path / "local" / DATASET)
    with minari_folder(f"minari:{DATASET}", nothing) as folder:
        assert folder == tmp_path / "local" / DATASET


def test_without_a_network_the_error_states_what_to_do(remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(remotes._registry, "folder", lambda: UnreachableRemote)
    with pytest.raises(DatasetError, match=r"no route to host\. Without a network, copy its folder here"):
        minari_folder(f"minari:{DATASET}", nothing).__enter__()


def test_a_remote_that_does_not_answer_is_given_up(remote: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class SilentRemote(FolderRemote):
        def list_datasets(self, prefix: str | None = None) -> Iterable[str]:
            release.wait(60)
            return []

    release = threading.Event()
    monkeypatch.setattr(minari_source, "CONTACT_SECONDS", 0.3)
    monkeypatch.setitem(remotes._registry, "folder", lambda: SilentRemote)
    try:
        with pytest.raises(DatasetError, match="it does not answer"):
            minari_folder(f"minari:{DATASET}", nothing).__enter__()
    finally:
        release.set()
        for thread in threading.enumerate():
            if thread.name == minari_source.THREAD:
                thread.join(60)


def test_what_is_not_there_and_what_is_no_id_are_refused(
    remote: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DatasetError, match="Couldn't find any version"):
        minari_folder("minari:acrobot-v0", nothing).__enter__()
    for bad in ("", "pendulum", "../../etc-v0", "/etc/x-v1", "hf://other/x-v0", "a/../b-v0", "x-v0\n"):
        with pytest.raises(DatasetError, match="no id of a Minari dataset"):
            minari_folder(f"minari:{bad}", nothing).__enter__()
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(DatasetError, match="pip install 'runspine"):
        minari_folder(f"minari:{DATASET}", nothing).__enter__()

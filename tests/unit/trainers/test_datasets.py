"""Datasets on disk: manifests, archives, Minari's files."""

from __future__ import annotations

import json
import zipfile
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest

from runspine.datasets import DatasetError, Manifest, Returns
from runspine.datasets.archive import (
    ReadRange,
    check_archive,
    check_folder,
    manifest_at_start,
    manifest_of,
    pack,
    unpack,
)
from runspine.datasets.fit import unfit_env, unfit_spaces
from runspine.datasets.manifest import read_manifest
from runspine.datasets.minari_folder import describe, read_transitions
from runspine.datasets.preparation import prepare
from runspine.datasets.spaces import differ, from_minari, from_text
from tests.kit.samples.pendulum import EXPERT, RANDOM, packed, record


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Manifest]:
    place = tmp_path_factory.mktemp("dataset")
    archive = place / "a.dataset.zip"
    return archive, packed(place / "a", archive)


def some(**changes: object) -> Manifest:
    whole = Manifest("Pendulum-v1", {}, "Box(3,) float32", "Box(1,) float32", 1, 2, Returns(0, 0, 0, 0))
    return replace(whole, **changes)  # type: ignore[arg-type]


def test_an_archive_lists_its_contents_and_unpacks_to_what_was_packed(
    made: tuple[Path, Manifest], tmp_path: Path
) -> None:
    archive, manifest = made
    assert (manifest.env, manifest.episodes, manifest.steps) == ("Pendulum-v1", 3, 600)
    assert [each.path for each in manifest.files] == ["data/main_data.hdf5", "data/metadata.json"]
    assert (
        unpack(archive, tmp_path / "out")
        == manifest
        == check_folder(tmp_path / "out")
        == manifest_of(archive)
    )
    assert len(read_transitions(tmp_path / "out").rewards) == 600


def test_the_manifest_is_read_from_the_first_bytes_of_an_archive(
    made: tuple[Path, Manifest], tmp_path: Path
) -> None:
    archive, manifest = made
    reads: list[int] = []

    def reader(data: bytes) -> ReadRange:
        def read(start: int, length: int) -> bytes:
            reads.append(length)
            return data[start : start + length]

        return read

    assert manifest_at_start(reader(archive.read_bytes())) == manifest
    assert sum(reads) < archive.stat().st_size / 4
    with zipfile.ZipFile(tmp_path / "packed.zip", "w", zipfile.ZIP_DEFLATED) as other:
        other.writestr("manifest.json", manifest.to_json())
    for stranger in ((tmp_path / "packed.zip").read_bytes(), b"", b"PK", b"x" * 100):
        assert manifest_at_start(reader(stranger)) is None


def test_the_same_data_gives_the_same_archive(made: tuple[Path, Manifest], tmp_path: Path) -> None:
    archive, manifest = made
    pack(archive.parent / "a", manifest, tmp_path / "again.zip")
    assert (tmp_path / "again.zip").read_bytes() == archive.read_bytes()


@pytest.mark.parametrize("where", [0.2, 0.5, 0.8])
def test_one_changed_byte_is_refused_and_its_file_named(
    made: tuple[Path, Manifest], tmp_path: Path, where: float
) -> None:
    data = bytearray(made[0].read_bytes())
    start = data.index(b"\x89HDF")
    at = start + int(where * made[1].files[0].size)
    data[at] ^= 1
    bad = tmp_path / "bad.zip"
    bad.write_bytes(data)
    for look in (check_archive, lambda path: unpack(path, tmp_path / "out")):
        with pytest.raises(DatasetError, match=r"data/main_data\.hdf5 differs from its manifest"):
            look(bad)
    assert not (tmp_path / "out").exists()


def test_a_damaged_copy_on_disk_is_distinguished_from_a_whole_one(
    made: tuple[Path, Manifest], tmp_path: Path
) -> None:
    unpack(made[0], tmp_path / "out")
    victim = tmp_path / "out" / "data" / "metadata.json"
    victim.chmod(0o644)
    victim.write_bytes(victim.read_bytes()[:-1] + b" ")
    with pytest.raises(DatasetError, match=r"data/metadata\.json differs"):
        check_folder(tmp_path / "out")
    victim.unlink()
    with pytest.raises(DatasetError, match=r"data/metadata\.json cannot be read"):
        check_folder(tmp_path / "out")


@pytest.mark.parametrize("path", ["../evil", "/etc/passwd", "a/../../b", ""])
def test_a_manifest_cannot_lead_outside_its_folder(path: str, tmp_path: Path) -> None:
    text = json.loads(some().to_json())
    text["files"] = [{"path": path, "size": 1, "sha256": "0" * 64}]
    evil = tmp_path / "evil.zip"
    with zipfile.ZipFile(evil, "w") as archive:
        archive.writestr("manifest.json", json.dumps(text))
        archive.writestr("../evil", "x")
    with pytest.raises(DatasetError, match="not a path below"):
        unpack(evil, tmp_path / "out")


def test_a_bomb_is_not_unfolded(tmp_path: Path) -> None:
    text = json.loads(some().to_json())
    text["files"] = [{"path": "data/x", "size": 10, "sha256": "0" * 64}]
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", json.dumps(text))
        archive.writestr("data/x", bytes(50 << 20))
    with pytest.raises(DatasetError, match=r"data/x has 1,048,576 bytes"):
        unpack(tmp_path / "bomb.zip", tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"format": 2}, "format 2"),
        ({"env": 3}, "env is 3"),
        ({"steps": -1}, "steps"),
        ({"files": {}}, "files"),
        ({"returns": {"mean": float("nan")}}, "returns.mean"),
        ({"episodes": True}, "episodes"),
    ],
)
def test_a_bad_manifest_names_the_field(change: dict[str, object], named: str) -> None:
    text = json.dumps({**json.loads(some().to_json()), **change})
    with pytest.raises(DatasetError, match=named):
        read_manifest(text)


@pytest.mark.parametrize("junk", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000])
def test_junk_is_no_manifest_and_no_archive(junk: bytes, tmp_path: Path) -> None:
    with pytest.raises(DatasetError):
        read_manifest(junk)
    (tmp_path / "junk.zip").write_bytes(junk)
    with pytest.raises(DatasetError, match=r"junk\.zip is not a dataset"):
        check_archive(tmp_path / "junk.zip")


def test_minari_itself_reads_what_we_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import minari

    record(tmp_path / "tests" / "pendulum-v0", 2)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    found = minari.load_dataset("tests/pendulum-v0")
    assert (found.total_episodes, found.total_steps) == (2, 400)
    assert found.env_spec is not None
    assert found.env_spec.id == "Pendulum-v1"


def test_a_minari_folder_is_packed_with_its_reference_returns(tmp_path: Path) -> None:
    record(tmp_path / "data")
    with prepare(tmp_path / "data", random=RANDOM, expert=EXPERT) as (archive, manifest):
        assert check_archive(archive) == manifest
        assert manifest.returns.normalised(EXPERT) == 100
        assert manifest.returns.normalised(RANDOM) == 0


def test_a_time_limit_is_no_end_of_the_future(tmp_path: Path) -> None:
    record(tmp_path / "data", 2)
    found = read_transitions(tmp_path / "data")
    assert not found.terminals.any()
    assert np.flatnonzero(found.timeouts).tolist() == [199, 399]
    assert (found.next_observations[:199] == found.observations[1:200]).all()
    assert not (found.next_observations[199] == found.observations[200]).all()


def test_an_episode_whose_parts_do_not_fit_is_named(tmp_path: Path) -> None:
    record(tmp_path / "data", 2)
    with h5py.File(tmp_path / "data" / "data" / "main_data.hdf5", "a") as file:
        del file["episode_1"]["rewards"]
        file["episode_1"]["rewards"] = np.zeros(3)
    with pytest.raises(DatasetError, match="episode_1 has parts of different lengths"):
        describe(tmp_path / "data")


def test_returns_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    record(tmp_path / "data", 2)
    with h5py.File(tmp_path / "data" / "data" / "main_data.hdf5", "a") as file:
        file["episode_1"]["rewards"][5] = np.nan
    with pytest.raises(DatasetError, match="episode 1 has no finite return"):
        describe(tmp_path / "data")


def test_the_error_of_a_folder_without_a_dataset_names_what_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match=r"neither metadata\.json nor"):
        describe(tmp_path)


def test_env_and_spaces_must_fit() -> None:
    manifest = some()
    assert unfit_env(manifest.env, manifest.env_kwargs, "d", "Pendulum-v1", {}) == ""
    assert "set env: Pendulum-v1" in unfit_env(manifest.env, manifest.env_kwargs, "d", "CartPole-v1", {})
    assert "env_kwargs" in unfit_env(manifest.env, manifest.env_kwargs, "d", "Pendulum-v1", {"g": 9.8})
    assert unfit_spaces(manifest, "d", "Box(3,) float64", "Box(1,) float32") == ""
    assert "its observations are Box(3,)" in unfit_spaces(manifest, "d", "Box(4,) float32", "Box(1,) float32")
    assert "its actions are" in unfit_spaces(manifest, "d", "Box(3,) float32", "Discrete(2)")


def test_spaces_have_the_same_words_wherever_they_come_from() -> None:
    import gymnasium as gym
    from minari.serialization import serialize_space

    for space in (gym.spaces.Box(-1, 1, (3, 2)), gym.spaces.Discrete(4), gym.spaces.Discrete(4, start=-1)):
        words = from_minari(serialize_space(space))
        assert words == from_text(type(space).__name__, str(space))
        assert not differ(words, words)
    assert differ("Discrete(2)", "Discrete(3)")


def test_without_references_there_is_no_score() -> None:
    assert Returns(1, 0, 1, 1).normalised(1) is None
    assert Returns(1, 0, 1, 1, random=5, expert=5).normalised(1) is None

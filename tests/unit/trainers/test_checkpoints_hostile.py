"""Files that are not what they seem: refused with the reason, nothing run, nothing written."""

from __future__ import annotations

import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from runspine.checkpoints import CheckpointError, inspect_checkpoint
from runspine.checkpoints.archive import Bounds, entries_of, unpack
from runspine.checkpoints.candidates import candidates
from runspine.checkpoints.weights import load
from tests.kit.samples import checkpoint_files as files

GOOD = {"dqn.pt": b"x"}
OUTSIDE = {
    "../../x": "leads outside",
    "a/../../../x": "leads outside",
    "/etc/x": "absolute path",
    "\\etc\\x": "absolute path",
    "C:\\x\\y": "absolute path",
    "a\\..\\..\\x": "leads outside",
    "a\\b": "backslashes",
    "a\x01b": "control characters",
}


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    return tmp_path / "somebody-ran-me"


def everything(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("reader", [inspect_checkpoint, load], ids=["inspect", "load"])
@pytest.mark.parametrize("make", [files.pickle_bomb, files.torch_bomb], ids=["bare", "torch"])
def test_a_pickle_that_would_run_a_command_is_refused_by_its_name_and_not_run(
    tmp_path: Path, mark: Path, make: Callable[[Path, Path], Path], reader: Callable[[Path], object]
) -> None:
    path = make(tmp_path / "dqn.cleanrl_model", mark)
    with pytest.raises(CheckpointError, match=r"posix\.system .*nothing of it was run"):
        reader(path)
    assert not mark.exists()


def test_the_bomb_of_these_tests_is_a_real_one(tmp_path: Path, mark: Path) -> None:
    pickle.loads(files.pickle_bomb(tmp_path / "bomb", mark).read_bytes())
    assert mark.exists()


@pytest.mark.parametrize(
    "program",
    [
        b"\x80\x04cbuiltins\neval\n(X\x01\x00\x00\x001tR.",
        b"\x80\x04cbuiltins\ngetattr\n.",
        b"(ios\nsystem\nX\x04\x00\x00\x00true.",
        b"\x80\x02\x82\x01.",
        b"\x80\x04ctorch\nload\n(X\x01\x00\x00\x00xtR.",
        b"\x80\x04ctorch.storage\n_load_from_bytes\n.",
        b"\x80\x04X\x01\x00\x00\x00ar\xff\xff\xff\x7f.",  # the reader would reserve 16 GB
        b"\x80\x05\x96\xff\xff\xff\xff\xff\xff\xff\x0f.",  # a byte array of an exabyte
        b"\x80\x04",
        b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x80\x04N0.",
    ],
)
def test_whatever_a_pickle_tries_nothing_but_a_refusal_comes_of_it(tmp_path: Path, program: bytes) -> None:
    path = files.zip_of(tmp_path / "a.pt", {"a/data.pkl": program, "a/version": b"3"})
    with pytest.raises(CheckpointError):
        inspect_checkpoint(path)


@given(st.binary(max_size=200))
def test_bytes_of_any_kind_are_refused_in_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.pt"
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as refused:
        inspect_checkpoint(path)
    assert "a.pt" in str(refused.value) or "pickle" in str(refused.value) or "calls" in str(refused.value)


@settings(max_examples=60)
@given(st.data())
def test_a_damaged_checkpoint_is_refused_or_what_it_was(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    path = files.saved(folder / "dqn.cleanrl_model", files.QNetwork().state_dict())
    whole = bytearray(path.read_bytes())
    about = inspect_checkpoint(path)
    at = data.draw(st.integers(0, len(whole) - 1))
    whole[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(whole)
    try:
        found = inspect_checkpoint(path)
    except CheckpointError:
        return
    assert (found.inputs, found.outputs) == (about.inputs, about.outputs)


def test_empty_truncated_and_foreign_files_are_different_errors(tmp_path: Path) -> None:
    empty = tmp_path / "empty.pt"
    empty.touch()
    with pytest.raises(CheckpointError, match="empty: 0 bytes"):
        inspect_checkpoint(empty)
    whole = files.saved(tmp_path / "whole.pt", files.QNetwork().state_dict()).read_bytes()
    for kept in (len(whole) - 1, len(whole) // 2, 100, 5):
        cut = tmp_path / f"cut-{kept}.pt"
        cut.write_bytes(whole[:kept])
        with pytest.raises(CheckpointError, match="truncated or damaged"):
            inspect_checkpoint(cut)
    stranger = tmp_path / "stranger.pt"
    stranger.write_text("weights, honestly")
    with pytest.raises(CheckpointError, match="is not a checkpoint of the builtin runner"):
        inspect_checkpoint(stranger)
    with pytest.raises(CheckpointError, match="No such file"):
        inspect_checkpoint(tmp_path / "missing.pt")
    with pytest.raises(CheckpointError, match="not a regular file"):
        inspect_checkpoint(tmp_path)


def test_a_zip_bomb_is_refused_before_it_unfolds(tmp_path: Path) -> None:
    path = files.zip_of(tmp_path / "bomb.zip", {"a/data.pkl": b"\0" * (64 << 20)})
    assert path.stat().st_size < 100_000
    with pytest.raises(CheckpointError, match=r"decompresses from [\d,]+ to 67,108,864 bytes: a zip bomb"):
        inspect_checkpoint(path)
    with pytest.raises(CheckpointError, match="a zip bomb"):
        unpack(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_replay_buffer_may_shrink_as_it_likes_where_nobody_unfolds_it(tmp_path: Path) -> None:
    path = files.zip_of(tmp_path / "a.zip", {"replay.npz": bytes(16 << 20), "policy.pth": b"", "data": b"{}"})
    with pytest.raises(CheckpointError, match="an algorithm of Stable-Baselines3 that is not supported"):
        inspect_checkpoint(path)
    with pytest.raises(CheckpointError, match="a zip bomb"):
        unpack(path, tmp_path / "out")


def test_an_archive_with_too_many_entries_or_bytes_is_refused(tmp_path: Path) -> None:
    many = files.zip_of(tmp_path / "many.zip", {f"{n}.pt": b"" for n in range(30)})
    with pytest.raises(CheckpointError, match="30 entries, more than the 20"):
        entries_of(many, "many.zip", Bounds(entries=20))
    large = files.zip_of(tmp_path / "large.zip", {f"{n}.pt": bytes(1000) for n in range(30)})
    with pytest.raises(CheckpointError, match="would decompress to 30,000 bytes, more than the 20,000"):
        entries_of(large, "large.zip", Bounds(total=20_000))


def test_entries_that_share_their_bytes_are_refused(tmp_path: Path) -> None:
    path = files.overlapping_zip(tmp_path / "shared.zip")
    with zipfile.ZipFile(path) as archive:
        assert sum(entry.file_size for entry in archive.infolist()) == 40_000
    with pytest.raises(CheckpointError, match="overlaps another: a zip bomb"):
        entries_of(path, path.name)


@pytest.mark.parametrize("name", OUTSIDE)
def test_an_archive_that_leads_outside_is_refused_and_nothing_is_written(tmp_path: Path, name: str) -> None:
    path = files.zip_with_name(tmp_path / "a.zip", name)
    inside = tmp_path / "deep" / "inside"
    before = everything(tmp_path)
    for attempt in (
        lambda: unpack(path, inside),
        lambda: inspect_checkpoint(path),
        lambda: candidates(path).__enter__(),
    ):
        with pytest.raises(CheckpointError, match=OUTSIDE[name]):
            attempt()
    assert everything(tmp_path) == before


def test_a_link_in_an_archive_is_refused(tmp_path: Path) -> None:
    path = files.zip_with_link(tmp_path / "link.zip", "/etc/passwd")
    with pytest.raises(CheckpointError, match="a link"):
        unpack(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_link_in_a_folder_is_not_followed(tmp_path: Path) -> None:
    files.saved(tmp_path / "elsewhere" / "secret.pt", files.QNetwork().state_dict())
    folder = tmp_path / "given"
    folder.mkdir()
    (folder / "linked.pt").symlink_to(tmp_path / "elsewhere" / "secret.pt")
    (folder / "linked-folder").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match="there is no checkpoint"), candidates(folder):
        pass


def test_an_archive_with_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.pt", b"1")
        archive.writestr("b.pt", b"2")
    path.write_bytes(path.read_bytes().replace(b"b.pt", b"a.pt"))
    with pytest.raises(CheckpointError, match="twice"):
        entries_of(path, path.name)


def test_a_torchscript_program_is_refused(tmp_path: Path) -> None:
    path = files.zip_of(
        tmp_path / "a.pt", {"a/data.pkl": b"\x80\x02}.", "a/code/x.py": b"pass", "a/constants.pkl": b""}
    )
    with pytest.raises(CheckpointError, match="TorchScript program"):
        inspect_checkpoint(path)


def test_a_packed_array_decompresses_no_further_than_its_declared_size(tmp_path: Path) -> None:
    import zlib

    from runspine.checkpoints.packed_arrays import unpack as unpack_array

    bomb = torch.frombuffer(bytearray(zlib.compress(bytes(50 << 20))), dtype=torch.uint8)
    with pytest.raises(CheckpointError, match="does not decompress to the 8 bytes"):
        unpack_array({"dtype": "<f8", "shape": [1], "zlib": bomb}, "observations.mean")
    with pytest.raises(CheckpointError, match="more than"):
        unpack_array({"dtype": "<f8", "shape": [1 << 40], "zlib": bomb}, "observations.mean")
    with pytest.raises(CheckpointError, match="not an array of numbers"):
        unpack_array({"dtype": "|O", "shape": [1], "zlib": bomb}, "observations.mean")


def test_a_safetensors_file_that_promises_more_than_it_has_is_refused(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    path = tmp_path / "a.safetensors"
    save_file(files.QNetwork().state_dict(), path)
    assert inspect_checkpoint(path).algo == "dqn"
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(CheckpointError, match="truncated"):
        inspect_checkpoint(path)
    path.write_bytes((1 << 60).to_bytes(8, "little") + b"{}")
    with pytest.raises(CheckpointError, match="truncated"):
        inspect_checkpoint(path)

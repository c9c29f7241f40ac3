"""Prepares a dataset for the registry: reads, checks and packs it. Needs h5py."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from runspine.datasets.archive import check_archive, check_folder, pack
from runspine.datasets.manifest import NAME, Manifest, Returns
from runspine.datasets.minari_folder import describe, find_data


@contextmanager
def prepare(
    path: Path, *, env: str = "", random: float | None = None, expert: float | None = None
) -> Iterator[tuple[Path, Manifest]]:
    """The archive of the dataset at a path and its manifest, for the duration of the block.

    Raises DatasetError.
    """
    if path.is_file():
        manifest = check_archive(path)
        if random is None and expert is None:
            yield path, manifest
            return
        raise _sealed(path)
    with TemporaryDirectory(prefix="runspine-dataset-") as scratch:
        folder = Path(scratch) / "dataset"
        if (path / NAME).is_file():
            manifest = check_folder(path)
        else:
            manifest = describe(path, env=env, source=path.name)
        (folder / "data").mkdir(parents=True)
        for file in sorted(find_data(path).iterdir()):
            if file.is_file():
                shutil.copyfile(file, folder / "data" / file.name)
        manifest = replace(manifest, returns=_marked(manifest.returns, random, expert))
        archive = Path(scratch) / "dataset.zip"
        yield archive, pack(folder, manifest, archive)


def _marked(returns: Returns, random: float | None, expert: float | None) -> Returns:
    return replace(
        returns,
        random=returns.random if random is None else random,
        expert=returns.expert if expert is None else expert,
    )


def _sealed(path: Path) -> Exception:
    from runspine.datasets.errors import DatasetError

    return DatasetError(
        f"{path.name} is sealed with its own random and expert returns: leave those options out"
    )

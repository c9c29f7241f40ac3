"""The dataset that a checkpoint learned from, in its metadata. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runspine.wire.v1.spec_pb2 import Dataset, RunSpec, Value

TAG = "offline_dataset"


def dataset_tag(spec: RunSpec) -> dict[str, Any]:
    """Metadata of every checkpoint of a run: the name and digest of its dataset; empty without one."""
    if not spec.dataset.digest:
        return {}
    return {TAG: {"name": spec.dataset.name, "digest": spec.dataset.digest}}


def tagged_dataset(meta: Mapping[str, Value]) -> Dataset | None:
    """The dataset in the metadata of a checkpoint; None without one."""
    if TAG not in meta:
        return None
    fields = meta[TAG].map.entries
    name, digest = (fields[key].text if key in fields else "" for key in ("name", "digest"))
    return Dataset(name=name, digest=digest) if digest else None

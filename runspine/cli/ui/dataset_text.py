"""Tables and details of datasets."""

from __future__ import annotations

from runspine.cli.ui.screen import echo, note, table
from runspine.datasets.registry import RegisteredDataset
from runspine.text.values import escaped, number, size
from runspine.wire.v1 import artifacts_pb2 as wire


def echo_datasets(found: list[RegisteredDataset]) -> None:
    if not found:
        note("no dataset is registered: `runspine datasets add FOLDER --name NAME`, or `datasets make`")
        return
    rows = [
        [
            escaped(each.name),
            escaped(each.env),
            f"{int(each.meta.get('episodes', 0)):,}",
            f"{int(each.meta.get('steps', 0)):,}",
            _return(each, "mean"),
            _score(each),
            size(each.artifact.size),
            _state(each),
            each.artifact.digest[:12],
        ]
        for each in found
    ]
    headings = ["NAME", "ENV", "EPISODES", "STEPS", "RETURN", "SCORE", "SIZE", "STATE", "DIGEST"]
    table(headings, rows, right=["EPISODES", "STEPS", "RETURN", "SCORE", "SIZE"])


def echo_dataset(each: RegisteredDataset) -> None:
    meta, returns = each.meta, each.meta.get("returns") or {}
    made = meta.get("provenance") or {}
    rows = [
        ("dataset", escaped(each.name)),
        ("env", escaped(each.env) + (f" {meta['env_kwargs']}" if meta.get("env_kwargs") else "")),
        ("spaces", f"{meta.get('observations', '?')} → {meta.get('actions', '?')}"),
        ("data", f"{int(meta.get('steps', 0)):,} steps in {int(meta.get('episodes', 0)):,} episodes"),
        ("return", f"{_return(each, 'mean')} ± {number(float(returns.get('std', 0)))}"),
        ("random · expert", f"{_return(each, 'random')} · {_return(each, 'expert')}"),
        ("score", _score(each)),
        ("made by", ", ".join(f"{key} {_short(value)}" for key, value in made.items()) or "–"),
        ("size", f"{size(each.artifact.size)}, {meta.get('files', 0)} files, {_state(each)}"),
        ("digest", each.artifact.digest),
    ]
    width = max(len(name) for name, _ in rows)
    for name, value in rows:
        echo(f"{name.ljust(width)}  {value}")


def _return(each: RegisteredDataset, name: str) -> str:
    value = (each.meta.get("returns") or {}).get(name)
    return "–" if value is None else number(float(value))


def _score(each: RegisteredDataset) -> str:
    """Mean return on the scale from random (0) to expert (100)."""
    returns = each.meta.get("returns") or {}
    low, high = returns.get("random"), returns.get("expert")
    if low is None or high is None or low == high:
        return "–"
    return f"{100 * (returns['mean'] - low) / (high - low):.1f}"


def _state(each: RegisteredDataset) -> str:
    states = {wire.GOOD: "good", wire.CORRUPT: "corrupt", wire.UNVERIFIED: "being read"}
    return states.get(each.artifact.integrity, "?")


def _short(value: object) -> str:
    text = str(value)
    return escaped(text if len(text) <= 40 else text[:12])

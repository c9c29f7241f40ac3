"""Uploads the models that a script saves; when it saves none, its networks at the end.

These are all `torch.nn.Module`s among the script's global names, except target networks (`target_network`,
`qf1_target`) and parts of another module. They are saved as CleanRL saves: one module as its state dict,
several as a tuple of state dicts, actors first. Both are read with `torch.load(path, weights_only=True)`.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from runspine.instrument.record import echo, record
from runspine.instrument.saved_files import SavedFiles, following
from runspine.sdk.encoding import plain

SUFFIX = ".cleanrl_model"
_TARGET_NETWORK = re.compile(r"(^|_)target(_|$)")


def patch(torch: Any) -> None:
    torch.save = announcing(torch.save)
    os.rename, os.replace = (following(rename, files) for rename in (os.rename, os.replace))


def announcing(save: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(save)
    def saved(obj: Any, f: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(f, str | os.PathLike):
            return save(obj, f, *args, **kwargs)
        since = files.saving(f)
        if os.path.realpath(f) in record.announced:
            # A new file each time: the previous one may still be uploading.
            Path(f).unlink(missing_ok=True)
        result = save(obj, f, *args, **kwargs)
        if record.run.active:
            files.add(f, record.step, since)
        return result

    return saved


def announce(
    path: str | os.PathLike[str], *, saved_by: str, modules: Mapping[str, str], step: int | None = None
) -> None:
    record.announced.add(os.path.realpath(path))
    record.models += 1
    record.model = os.path.realpath(path)
    meta = {**about(), "saved_by": saved_by, **({"modules": dict(modules)} if modules else {})}
    record.run.checkpoint(path, step=record.step if step is None else step, **meta)


files = SavedFiles(lambda path, step: announce(path, saved_by="script", modules={}, step=step))


os.register_at_fork(after_in_child=files.forked)


def about() -> dict[str, Any]:
    """Metadata of a model: algorithm, env, seed, script and arguments."""
    arguments, run = record.arguments, record.run
    return {
        "algo": run.algo or Path(record.script).stem,
        "env": str(arguments.get("env_id") or run.env_id),
        "seed": arguments.get("seed", run.seed),
        "script": Path(record.script).name,
        "args": plain(arguments),
    }


def save_networks() -> None:
    """Save the networks of a script that has saved no model."""
    torch = sys.modules.get("torch")
    if torch is None or record.models or not record.run.active:
        return
    networks = networks_of(record.globals, torch.nn.Module)
    if not networks:
        return
    states = tuple(network.state_dict() for network in networks.values())
    path = record.run.dir / f"{Path(record.script).stem}{SUFFIX}"
    whole = states[0] if len(states) == 1 else states
    getattr(torch.save, "__wrapped__", torch.save)(whole, path)
    classes = {name: type(network).__name__ for name, network in networks.items()}
    announce(path, saved_by="launcher", modules=classes)
    echo(f"the script saves no model: {', '.join(networks)} kept in {path.name}")


def networks_of(names: Mapping[str, Any], module: type) -> dict[str, Any]:
    """The networks among these names. Pure."""
    found: dict[str, Any] = {}
    for name, value in names.items():
        known = any(value is other for other in found.values())
        if (
            isinstance(value, module)
            and not name.startswith("_")
            and not known
            and not _TARGET_NETWORK.search(name)
        ):
            found[name] = value
    parts = {id(part) for value in found.values() for part in list(value.modules())[1:]}
    whole = [name for name, value in found.items() if id(value) not in parts]
    return {name: found[name] for name in sorted(whole, key=lambda name: "actor" not in name)}

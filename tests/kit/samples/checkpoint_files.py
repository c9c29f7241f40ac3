"""Checkpoints as each library writes them, and files that only pretend to be one."""

from __future__ import annotations

import io
import json
import pickle
import stat
import zipfile
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn


def chain(*sizes: int, activation: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    return nn.Sequential(*layers[:-1])


class QNetwork(nn.Module):
    """As CleanRL's dqn.py names its parts."""

    def __init__(self, inputs: int = 4, outputs: int = 2) -> None:
        super().__init__()
        self.network = chain(inputs, 12, 8, outputs)


class Distributional(nn.Module):
    """As CleanRL's c51.py does."""

    def __init__(self, inputs: int = 4, actions: int = 2, atoms: int = 11) -> None:
        super().__init__()
        self.atoms: torch.Tensor
        self.register_buffer("atoms", torch.linspace(-10, 10, atoms))
        self.network = chain(inputs, 12, 8, actions * atoms)


class Continuous(nn.Module):
    """As CleanRL's ppo_continuous_action.py does."""

    def __init__(self, inputs: int = 3, outputs: int = 1) -> None:
        super().__init__()
        self.critic = chain(inputs, 8, 8, 1, activation=nn.Tanh)
        self.actor_mean = chain(inputs, 8, 8, outputs, activation=nn.Tanh)
        self.actor_logstd = nn.Parameter(torch.zeros(1, outputs))


class Discrete(nn.Module):
    """As CleanRL's ppo.py does."""

    def __init__(self, inputs: int = 4, outputs: int = 2) -> None:
        super().__init__()
        self.critic = chain(inputs, 8, 8, 1, activation=nn.Tanh)
        self.actor = chain(inputs, 8, 8, outputs, activation=nn.Tanh)


class Actor(nn.Module):
    """As CleanRL's td3 and ddpg do; with `spread`, as its sac does."""

    def __init__(self, inputs: int = 3, outputs: int = 1, *, spread: bool = False) -> None:
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(inputs, 16), nn.Linear(16, 16)
        if spread:
            self.fc_mean, self.fc_logstd = nn.Linear(16, outputs), nn.Linear(16, outputs)
        else:
            self.fc_mu = nn.Linear(16, outputs)
        self.register_buffer("action_scale", torch.full((outputs,), 2.0))
        self.register_buffer("action_bias", torch.full((outputs,), 0.5))


def saved(path: Path, what: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    torch.save(what, path)
    return path


class Bomb:
    """Unpickled, it leaves a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        import os

        return os.system, (f"touch {self.mark}",)


def pickle_bomb(path: Path, mark: Path) -> Path:
    """A bare pickle that runs a command."""
    path.write_bytes(pickle.dumps({"network.0.weight": Bomb(mark)}))
    return path


def torch_bomb(path: Path, mark: Path) -> Path:
    """A file of torch.save whose pickle runs a command."""
    torch.save({"model_weights": QNetwork().state_dict(), "args": {"env_id": Bomb(mark)}}, path)
    return path


def sb3_bomb(path: Path, source: Path, mark: Path, entry: str) -> Path:
    """A zip of Stable-Baselines3 with one entry replaced by a bomb."""
    payload = pickle.dumps(Bomb(mark))
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == entry == "data":
                import base64

                fields = json.loads(data)
                fields["policy_class"][":serialized:"] = base64.b64encode(payload).decode()
                data = json.dumps(fields).encode()
            elif name == entry:
                inner = io.BytesIO()
                torch.save({"action_net.weight": Bomb(mark)}, inner)
                data = inner.getvalue()
            new.writestr(name, data)
    return path


def zip_of(path: Path, entries: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)
    return path


def zip_with_link(path: Path, target: str) -> Path:
    entry = zipfile.ZipInfo("dqn.cleanrl_model")
    entry.create_system = 3
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(entry, target)
    return path


def zip_with_name(path: Path, name: str, data: bytes = b"mine") -> Path:
    """With exactly this name: the library would correct some of them."""
    stand_in = "x" * len(name.encode())
    zip_of(path, {stand_in: data})
    path.write_bytes(path.read_bytes().replace(stand_in.encode(), name.encode()))
    return path


def overlapping_zip(path: Path, count: int = 40) -> Path:
    """Many entries that all stand for the same bytes."""
    zip_of(path, {f"{n:03}.pt": b"0" * 1000 if n == 0 else b"" for n in range(count)})
    with zipfile.ZipFile(path) as archive:
        first = archive.infolist()[0]
        directory = archive.start_dir
    data = bytearray(path.read_bytes())
    at = directory
    while data[at : at + 4] == b"PK\x01\x02":
        name, extra, comment = (int.from_bytes(data[at + o : at + o + 2], "little") for o in (28, 30, 32))
        data[at + 16 : at + 20] = first.CRC.to_bytes(4, "little")
        data[at + 20 : at + 24] = first.compress_size.to_bytes(4, "little")
        data[at + 24 : at + 28] = first.file_size.to_bytes(4, "little")
        data[at + 42 : at + 46] = (0).to_bytes(4, "little")
        at += 46 + name + extra + comment
    path.write_bytes(data)
    return path

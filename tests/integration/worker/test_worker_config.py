"""The command line that a program parses is its configuration, without an edit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runspine.wire.v1.spec_pb2 import Value
from tests.kit.worker import Rig

ARGPARSE = """
import argparse, pathlib
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("x"))
parser.add_argument("--hub-token", default="hidden")
parser.set_defaults(run=print)
args = parser.parse_args()
assert args.hub_token == "hidden" and args.run is print
# A parser of something else is none of the program's.
argparse.ArgumentParser().parse_args([])
"""
TYRO = """
import dataclasses, tyro
@dataclasses.dataclass
class Net:
    width: int = 64
@dataclasses.dataclass
class Args:
    lr: float = 0.1
    net: Net = dataclasses.field(default_factory=Net)
args = tyro.cli(Args)
assert args.lr == 0.25
"""


async def configuration(rig: Rig, folder: Path, script: str) -> dict[str, Any]:
    path = folder / "train.py"
    path.write_text(script)
    run_id = await rig.submit("python", str(path), "--lr", "{params.lr}", params={"lr": Value(number=0.25)})
    exited = await rig.exited(run_id)
    assert exited.exit_code == 0, await rig.texts(run_id)
    described = [f.trainer_described for f in await rig.attempts(run_id) if f.HasField("trainer_described")]
    config: dict[str, Any] = json.loads(described[-1].config_json)
    return config


async def test_arguments_of_argparse_and_tyro_are_on_the_run(rig: Rig, tmp_path: Path) -> None:
    rig.worker()
    assert await configuration(rig, tmp_path, ARGPARSE) == {
        "args": {"lr": 0.25, "out": "x", "hub_token": "***"}
    }
    assert await configuration(rig, tmp_path, TYRO) == {"args": {"lr": 0.25, "net": {"width": 64}}}

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
HYDRA = """
import hydra
from omegaconf import DictConfig
@hydra.main(version_base=None, config_path="conf", config_name="config")
def main(config: DictConfig) -> float:
    assert config.lr == 0.25 and config.double == 0.5, config
    return 1.0
main()
"""
HYDRA_FILES = {
    "conf/config.yaml": "defaults:\n  - model: small\nlr: 0.1\ndouble: ${twice:${lr}}\nkey_token: hidden\n",
    "conf/model/small.yaml": "width: 64\nlayers: [1, 2]\n",
}
RESOLVER = """
from omegaconf import OmegaConf
OmegaConf.register_new_resolver("twice", lambda value: 2 * value)
"""
OMEGACONF = """
from omegaconf import OmegaConf
defaults = OmegaConf.create({"lr": 0.1, "net": {"width": 64, "same": "${lr}"}})
config = OmegaConf.merge(defaults, OmegaConf.from_cli())
assert config.lr == 0.25
OmegaConf.merge({"none": 1}, {"of": "these"})
"""


async def configuration(rig: Rig, folder: Path, script: str, *options: str, **files: str) -> dict[str, Any]:
    path = folder / "train.py"
    path.write_text(script)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    words = options or ("--lr", "{params.lr}")
    run_id = await rig.submit("python", str(path), *words, params={"lr": Value(number=0.25)})
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


async def test_the_configuration_of_hydra_and_omegaconf_is_on_the_run(rig: Rig, tmp_path: Path) -> None:
    rig.worker()
    composed = await configuration(rig, tmp_path, RESOLVER + HYDRA, "lr={params.lr}", **HYDRA_FILES)
    assert composed == {
        "args": {
            "lr": 0.25,
            "double": 0.5,
            "key_token": "***",
            "model": {"width": 64, "layers": [1, 2]},
        }
    }
    merged = await configuration(rig, tmp_path, OMEGACONF, "lr={params.lr}")
    assert merged == {"args": {"lr": 0.25, "net": {"width": 64, "same": 0.25}}}

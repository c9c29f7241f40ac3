"""Scripts of a CORL checkout: their parameters read from the source, their command line, what they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import runspine.datasets.corl
from runspine.datasets.corl.checkout import PACKAGES, Checkout, NoCheckout
from runspine.plain import plain_value
from runspine.runners import Launch, NotReady
from runspine.wire.v1.runner_pb2 import AlgoInfo, Param
from runspine.wire.v1.spec_pb2 import RunSpec
from services.worker.runners.args_schema import NoSchema, params_of
from services.worker.runners.cleanrl_check import ask

LAUNCHER = Path(runspine.datasets.corl.__file__).with_name("__main__.py")
# The class that holds a script's parameters, by the names they use.
CONFIGS = ("TrainConfig", "Config")
# What the spec's fields are called there, the first that a script has.
FIELDS = {
    "env": ("env", "env_name", "dataset_name"),
    "seed": ("seed", "train_seed"),
    "total_steps": ("max_timesteps", "update_steps", "num_train_ops"),
}
# Said by us: the run's GPUs decide about one, its directory about the other.
OURS = ("device", "checkpoints_path")
HEADLESS = {"SDL_VIDEODRIVER": "dummy", "MUJOCO_GL": "egl"}


@dataclass(frozen=True, slots=True)
class Script:
    name: str
    path: Path
    params: tuple[Param, ...]

    @property
    def names(self) -> set[str]:
        return {param.name for param in self.params}

    def field(self, name: str) -> str:
        """What the script calls a field of the spec; empty when it has none such."""
        return next((each for each in FIELDS[name] if each in self.names), "")

    def info(self) -> AlgoInfo:
        taken = {*(self.field(name) for name in FIELDS), *OURS}
        summary = (
            f"{self.path.parent.name}/{self.path.name} of CORL, unmodified; no resume, evaluated by itself"
        )
        params = [param for param in self.params if param.name not in taken]
        for param in params:
            param.required = False
        return AlgoInfo(name=self.name, summary=summary, params=params, needs_dataset=True)


def script_infos(environment: Mapping[str, str]) -> list[AlgoInfo]:
    try:
        return [script.info() for script in scripts(environment).values()]
    except NoCheckout:
        return []


def scripts(environment: Mapping[str, str]) -> dict[str, Script]:
    """Those whose parameters can be read. Raises NoCheckout."""
    found = {}
    for name, path in Checkout.find(environment).scripts().items():
        try:
            found[name] = _read(name, path, path.stat().st_mtime_ns)
        except (NoSchema, OSError):
            continue
    return found


@lru_cache(maxsize=128)
def _read(name: str, path: Path, changed: int) -> Script:
    source = path.read_text(encoding="utf-8", errors="replace")
    for config in CONFIGS:
        try:
            return Script(name, path, tuple(params_of(source, name=config)))
        except NoSchema:
            continue
    raise NoSchema(f"{path.name} has none of the classes {', '.join(CONFIGS)}")


def launch_script(spec: RunSpec, run_dir: Path, python: str, environment: Mapping[str, str]) -> Launch:
    """Raises NotReady."""
    try:
        checkout = Checkout.find(environment)
        script = scripts(environment)[spec.algo]
    except NoCheckout as error:
        raise NotReady(str(error)) from error
    if spec.HasField("warm_start"):
        raise NotReady(
            f"warm_start: {spec.algo} is CORL's own and begins anew; params.load_model names a file"
        )
    _check_packages(script, python)
    command = [python, str(LAUNCHER), "--path", str(checkout.folder), str(script.path)]
    return Launch([*command, *arguments_for(script, spec, run_dir)], run_dir, HEADLESS)


def arguments_for(script: Script, spec: RunSpec, run_dir: Path) -> list[str]:
    """The script's own command line. Raises NotReady for what it does not take."""
    given: dict[str, Any] = {"device": "cuda" if spec.gpus else "cpu"}
    given["checkpoints_path"] = str(run_dir / "checkpoints")
    given = {name: value for name, value in given.items() if name in script.names}
    told = {
        "env": spec.env,
        "seed": spec.seed if spec.HasField("seed") else 1,
        "total_steps": spec.total_steps,
    }
    for field, value in told.items():
        name = script.field(field)
        if name and value != 0:
            given[name] = value
        elif field == "total_steps" and value:
            raise NotReady(f"total_steps: {script.name} counts otherwise; leave it out and use its params")
    given |= {name: plain_value(value) for name, value in spec.params.items()}
    # Left out, they are the script's own: None is not a word of its command line.
    return [word for name, value in given.items() if value != "" for word in (f"--{name}", str(value))]


def _check_packages(script: Script, python: str) -> None:
    found = ask(python, {"packages": PACKAGES, "optional": [], "env": "", "kwargs": {}}, {})
    if found.get("missing"):
        missing = " ".join(found["missing"])
        raise NotReady(
            f"{script.name} needs {missing}, which {python} does not have: {python} -m pip install {missing}"
        )

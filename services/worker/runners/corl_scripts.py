"""Scripts of a CORL checkout: parameters read from the source, command line, required packages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import runspine.instrument.corl
from runspine.domain.defaults import DEFAULT_SEED
from runspine.instrument.corl.checkout import PACKAGES, CorlCheckout, CorlCheckoutError
from runspine.instrument.git_checkout import version_of
from runspine.runners import Launch, NotReadyError
from runspine.services.worker.runners.args_schema import NoSchemaError, params_of
from runspine.services.worker.runners.cleanrl_check import probe_python
from runspine.spec.plain import plain_value
from runspine.wire.v1.runner_pb2 import AlgoInfo, Param
from runspine.wire.v1.spec_pb2 import RunSpec

LAUNCHER = Path(runspine.instrument.corl.__file__).with_name("__main__.py")
# Names of the class with a script's parameters.
CONFIGS = ("TrainConfig", "Config")
# Names of the spec's fields in the scripts; the first that a script has is used.
FIELDS = {
    "env": ("env", "env_name", "dataset_name"),
    "seed": ("seed", "train_seed"),
    "total_steps": ("max_timesteps", "update_steps", "num_train_ops"),
}
# Set by the worker, from the run's GPUs and its directory.
SET_BY_WORKER = ("device", "checkpoints_path")
HEADLESS = {"SDL_VIDEODRIVER": "dummy", "MUJOCO_GL": "egl"}


@dataclass(frozen=True, slots=True)
class CorlScript:
    """What is known about one script."""

    name: str
    path: Path
    params: tuple[Param, ...]

    @property
    def names(self) -> set[str]:
        return {param.name for param in self.params}

    def field(self, name: str) -> str:
        """The script's name of a field of the spec; empty when it has none."""
        return next((each for each in FIELDS[name] if each in self.names), "")

    def info(self) -> AlgoInfo:
        taken = {*(self.field(name) for name in FIELDS), *SET_BY_WORKER}
        summary = (
            f"{self.path.parent.name}/{self.path.name} of CORL, unmodified; no resume, evaluated by itself"
        )
        params = [param for param in self.params if param.name not in taken]
        for param in params:
            param.required = False
        return AlgoInfo(name=self.name, summary=summary, params=params, needs_dataset=True, warm_starts=False)


def script_infos(environment: Mapping[str, str]) -> list[AlgoInfo]:
    """The scripts of the checkout; none without one."""
    try:
        return [script.info() for script in scripts(environment).values()]
    except CorlCheckoutError:
        return []


def scripts(environment: Mapping[str, str]) -> dict[str, CorlScript]:
    """Those whose parameters can be read. Raises CorlCheckoutError."""
    found = {}
    for name, path in CorlCheckout.find(environment).scripts().items():
        try:
            found[name] = _read(name, path, path.stat().st_mtime_ns)
        except (NoSchemaError, OSError):
            continue
    return found


@lru_cache(maxsize=128)
def _read(name: str, path: Path, changed: int) -> CorlScript:
    source = path.read_text(encoding="utf-8", errors="replace")
    for config in CONFIGS:
        try:
            return CorlScript(name, path, tuple(params_of(source, name=config)))
        except NoSchemaError:
            continue
    raise NoSchemaError(f"{path.name} has none of the classes {', '.join(CONFIGS)}")


def launch_script(spec: RunSpec, run_dir: Path, python: str, environment: Mapping[str, str]) -> Launch:
    """The launch of a script. Raises NotReadyError."""
    try:
        checkout = CorlCheckout.find(environment)
        script = scripts(environment)[spec.algo]
    except CorlCheckoutError as error:
        raise NotReadyError(str(error)) from error
    if spec.HasField("warm_start"):
        raise NotReadyError(
            f"warm_start: {spec.algo}, a script of CORL, starts at step 0; params.load_model names a file"
        )
    _check_packages(script, python)
    command = [python, str(LAUNCHER), "--path", str(checkout.folder), str(script.path)]
    words = [*command, *arguments_for(script, spec, run_dir)]
    versions = {"corl": version_of(checkout.folder) or "no git checkout"}
    return Launch(words, run_dir, HEADLESS, versions, reads=(checkout.folder,))


def arguments_for(script: CorlScript, spec: RunSpec, run_dir: Path) -> list[str]:
    """The script's own command line. Raises NotReadyError for what it does not take."""
    given: dict[str, Any] = {"device": "cuda" if spec.gpus else "cpu"}
    given["checkpoints_path"] = str(run_dir / "checkpoints")
    given = {name: value for name, value in given.items() if name in script.names}
    fields = {
        "env": spec.env,
        "seed": spec.seed if spec.HasField("seed") else DEFAULT_SEED,
        "total_steps": spec.total_steps,
    }
    for field, value in fields.items():
        name = script.field(field)
        if name and value != 0:
            given[name] = value
        elif field == "total_steps" and value:
            raise NotReadyError(
                f"total_steps: {script.name} counts otherwise; leave it out and use its params"
            )
    given |= {name: plain_value(value) for name, value in spec.params.items()}
    # Empty values are left out, so that the script's defaults apply.
    return [word for name, value in given.items() if value != "" for word in (f"--{name}", str(value))]


def _check_packages(script: CorlScript, python: str) -> None:
    found = probe_python(python, {"packages": PACKAGES, "optional": [], "env": "", "kwargs": {}}, {})
    if found.get("missing"):
        missing = " ".join(found["missing"])
        raise NotReadyError(
            f"{script.name} needs {missing}, which {python} does not have: {python} -m pip install {missing}"
        )

"""Scripts of a CleanRL checkout, read without running them: arguments, packages, action spaces."""

from __future__ import annotations

import ast
import re
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from runspine.instrument.api import OLD, api_of
from runspine.services.worker.runners.args_schema import NoSchemaError, params_of
from runspine.wire.v1.runner_pb2 import BOOLEAN, AlgoInfo, Param

# Given by fields of the spec.
FROM_SPEC = {"env_id": "env", "seed": "seed", "total_timesteps": "total_steps"}
# A parameter of the runner, not of a script: whether the script's own evaluation may film. Saving a model
# evaluates it, and CleanRL always films that.
EVALUATION_VIDEO = "eval_capture_video"
EVALUATES_WITH = "save_model"
# Part of the checkout, not of any package.
OWN = ("cleanrl", "cleanrl_utils")
# Where a package's name is not that of its module.
PIP_NAMES = {"cv2": "opencv-python", "ale_py": "ale-py", "memory_gym": "memory-gym"}
# Packages that make envs in their own way: Gymnasium's ids do not apply.
OWN_ENVS = frozenset({"envpool", "procgen", "isaacgym", "pettingzoo", "memory_gym"})
_ACTIONS = re.compile(r"only (discrete|continuous) action space is supported")
# Wrappers that resize pictures with OpenCV.
_PICTURES = re.compile(r"\b(ResizeObservation|AtariPreprocessing|atari_wrappers)\b")
_DOCS = re.compile(r"https?://\S+")


@dataclass(frozen=True, slots=True)
class CleanrlScript:
    """What is known about one script."""

    name: str
    path: Path
    params: tuple[Param, ...]
    # Modules it imports as soon as it starts.
    packages: tuple[str, ...]
    # Discrete, Box, or empty when the source does not state it.
    actions: str
    # Whether it needs Gymnasium's API before 1.0.
    old_api: bool
    docs: str

    @property
    def names(self) -> set[str]:
        return {param.name for param in self.params}

    @property
    def evaluates(self) -> bool:
        """Whether it can evaluate its model, without a switch of its own for the videos of it."""
        return EVALUATES_WITH in self.names and EVALUATION_VIDEO not in self.names

    @property
    def gymnasium_envs(self) -> bool:
        return "gymnasium" in self.packages and not OWN_ENVS.intersection(self.packages)

    def info(self) -> AlgoInfo:
        """For WorkerOnline: its parameters, without those given by fields of the spec."""
        params = [param for param in self.params if param.name not in FROM_SPEC]
        if self.evaluates:
            params.append(_evaluation_video())
        return AlgoInfo(name=self.name, summary=self.docs, params=params, warm_starts=False)


def _evaluation_video() -> Param:
    param = Param(
        name=EVALUATION_VIDEO, type=BOOLEAN, help="whether the script's own evaluation records videos"
    )
    param.default.boolean = True
    return param


def read_script(path: Path) -> CleanrlScript:
    """Read a script. Raises NoSchemaError when it has no arguments that can be read."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _read(path: Path, changed: int) -> CleanrlScript:
    source = path.read_text(encoding="utf-8", errors="replace")
    params = params_of(source)
    actions = _ACTIONS.search(source)
    docs = _DOCS.search(source.partition("\n")[0])
    return CleanrlScript(
        name=path.stem,
        path=path,
        params=tuple(params),
        packages=packages_of(source, path.parent) + (("cv2",) if _PICTURES.search(source) else ()),
        actions={"discrete": "Discrete", "continuous": "Box"}[actions[1]] if actions else "",
        old_api=api_of(source) == OLD,
        docs=docs[0] if docs else "",
    )


def packages_of(source: str, folder: Path) -> tuple[str, ...]:
    """Third-party modules that a script imports at its top, in order."""
    found: dict[str, None] = {}
    for node in ast.parse(source).body:
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        for name in names:
            found |= dict.fromkeys(_tops(name, folder))
    return tuple(found)


def _tops(name: str, folder: Path) -> list[str]:
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names or top in OWN or (folder / f"{top}.py").exists():
        return []
    # torch has the writer, but not the package that it writes with.
    return [top, "tensorboard"] if name.startswith("torch.utils.tensorboard") else [top]


__all__ = ["CleanrlScript", "NoSchemaError", "packages_of", "read_script"]

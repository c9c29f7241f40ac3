"""Whether a CleanRL script can run, asked in the Python that will run it. Each no names the remedy."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspine.launcher import probe
from runspine.plain import plain_value
from runspine.runners import NotReady
from runspine.wire.v1.spec_pb2 import RunSpec
from services.worker.environment import PASSED_ON
from services.worker.runners.cleanrl_scripts import PIP_NAMES, Script

PROBE = Path(probe.__file__)
PROBE_SECONDS = 60.0
OLDEST_PYTHON = [3, 10]
# RecordVideo writes with one of these.
VIDEO = ("moviepy", "av")
ATARI_HINT = " Atari's envs come with ale-py, and for gymnasium 0.29 with gymnasium[atari]."
# numpy's own seeding takes no more.
SEEDS_END = 2**32


def check(python: str, script: Script, spec: RunSpec, variables: Mapping[str, str]) -> None:
    """Raises NotReady."""
    if spec.seed >= SEEDS_END:
        raise NotReady(f"seed {spec.seed} is too large for CleanRL, which seeds numpy: 0 to {SEEDS_END - 1}")
    env = spec.env or _default_env(script)
    asked = {
        "packages": [*script.packages, *_for_params(spec)],
        "optional": VIDEO,
        "env": env if script.gymnasium_envs else "",
        "kwargs": {name: plain_value(value) for name, value in spec.env_kwargs.items()},
    }
    found = ask(python, asked, variables)
    check_packages(python, script, spec, found)
    check_gymnasium(script, found)
    check_env(script, env, found)


def ask(python: str, asked: dict[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """What the probe finds there. Raises NotReady when it cannot even be started."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    try:
        done = subprocess.run(
            [python, str(PROBE), json.dumps(asked)],
            env={**passed, **variables},
            capture_output=True,
            timeout=PROBE_SECONDS,
            text=True,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise NotReady(f"{python} did not answer within {PROBE_SECONDS:.0f} s") from error
    except OSError as error:
        raise NotReady(f"{python} cannot be started: {error}") from error
    try:
        found = json.loads(done.stdout)
    except ValueError as error:
        last = (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1]
        raise NotReady(f"{python} cannot be asked what it has: {last}") from error
    return found if isinstance(found, dict) else {}


def check_packages(python: str, script: Script, spec: RunSpec, found: Mapping[str, Any]) -> None:
    if found["python"] < OLDEST_PYTHON:
        version = ".".join(map(str, found["python"]))
        raise NotReady(f"{python} is Python {version}: the launcher needs 3.10 or newer")
    missing = list(found["missing"])
    if _records_video(spec) and set(VIDEO).issubset(found["absent"]):
        missing.append("moviepy")
    if missing:
        packages = " ".join(PIP_NAMES.get(name, name) for name in missing)
        raise NotReady(
            f"{script.name} imports {', '.join(missing)}, which {python} does not have: "
            f"{python} -m pip install {packages}"
        )


def check_gymnasium(script: Script, found: Mapping[str, Any]) -> None:
    version = found["versions"].get("gymnasium", "")
    if script.old_api and version.startswith("1.0."):
        raise NotReady(
            f"gymnasium {version} cannot reset an env in the step that ends its episode, as {script.name} "
            "expects: install 0.29.1, or 1.1 and newer, in the runner's Python"
        )


def check_env(script: Script, env: str, found: Mapping[str, Any]) -> None:
    near = f" Here there are: {', '.join(found['near'])}." if found.get("near") else ""
    version = found["versions"].get("gymnasium", "")
    if "unknown" in found:
        atari = ATARI_HINT if env.startswith("ALE/") or "NoFrameskip-" in env else ""
        raise NotReady(f"env {env!r} is not known to gymnasium {version}: {found['unknown']}{near}{atari}")
    if "unmade" in found:
        raise NotReady(f"env {env} cannot be made: {found['unmade']}{near}")
    kind = found.get("actions")
    if kind and script.actions and kind != script.actions:
        word, other = (
            ("discrete", "…_continuous_action")
            if script.actions == "Discrete"
            else ("continuous", "ppo or dqn")
        )
        raise NotReady(
            f"{script.name} takes {word} actions, and those of {env} are {found['actions_text']}: "
            f"choose another env, or a script such as {other}"
        )


def _default_env(script: Script) -> str:
    return next((param.default.text for param in script.params if param.name == "env_id"), "")


def _records_video(spec: RunSpec) -> bool:
    # Models are evaluated with a camera on.
    return any(spec.params[name].boolean for name in ("capture_video", "save_model") if name in spec.params)


def _for_params(spec: RunSpec) -> list[str]:
    """Packages that a script imports only when it is asked to."""
    wanted = {"track": "wandb", "upload_model": "huggingface_hub"}
    found = [name for param, name in wanted.items() if param in spec.params and spec.params[param].boolean]
    # Without a key W&B is stood in for.
    return [name for name in found if name != "wandb" or "WANDB_API_KEY" in spec.secrets]

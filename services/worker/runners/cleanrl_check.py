"""Preflight of a CleanRL script in the Python that will run it. Each error names the remedy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from runspine.instrument import probe
from runspine.runners import NotReadyError
from runspine.services.worker.runners.cleanrl_scripts import (
    EVALUATES_WITH,
    EVALUATION_VIDEO,
    PIP_NAMES,
    CleanrlScript,
)
from runspine.services.worker.runners.probes import (
    PROBE_SECONDS,
    ProbeFailedError,
    ProbeTimeoutError,
    run_probe,
)
from runspine.spec.plain import plain_value
from runspine.wire.v1.spec_pb2 import RunSpec

PROBE = Path(probe.__file__)
MIN_PYTHON = [3, 10]
# RecordVideo writes with one of these.
VIDEO = ("moviepy", "av")
ATARI_HINT = " Atari's envs come with ale-py, and for gymnasium 0.29 with gymnasium[atari]."
# numpy accepts no larger seeds.
SEED_LIMIT = 2**32
HUB_TOKEN = "HF_TOKEN"


def check_script(
    python: str, script: CleanrlScript, spec: RunSpec, variables: Mapping[str, str]
) -> dict[str, str]:
    """Check packages, versions and env; the versions of packages found. Raises NotReadyError."""
    if spec.seed >= SEED_LIMIT:
        raise NotReadyError(
            f"seed {spec.seed} is too large for CleanRL, which seeds numpy: 0 to {SEED_LIMIT - 1}"
        )
    check_upload(script, spec)
    env = spec.env or _default_env(script)
    request = {
        "packages": [*script.packages, *_for_params(spec)],
        "optional": VIDEO,
        "env": env if script.gymnasium_envs else "",
        "kwargs": {name: plain_value(value) for name, value in spec.env_kwargs.items()},
    }
    found = probe_python(python, request, variables)
    check_packages(python, script, spec, found)
    check_gymnasium(script, found)
    check_env(script, env, found)
    return dict(found["versions"])


def probe_python(python: str, request: dict[str, Any], variables: Mapping[str, str]) -> dict[str, Any]:
    """The report of the probe, run in `python`. Raises NotReadyError when it cannot be started."""
    try:
        return run_probe([python, str(PROBE), json.dumps(request)], variables)
    except ProbeTimeoutError as error:
        raise NotReadyError(f"{python} did not answer within {PROBE_SECONDS:.0f} s") from error
    except ProbeFailedError as error:
        raise NotReadyError(f"{python} cannot be probed: {error}") from error


def check_upload(script: CleanrlScript, spec: RunSpec) -> None:
    """Raises NotReadyError when the script would upload its model at the end without a token for it."""
    if "upload_model" not in spec.params or not spec.params["upload_model"].boolean:
        return
    if HUB_TOKEN not in spec.secrets:
        raise NotReadyError(
            f"params.upload_model: {script.name} uploads its model to the Hugging Face Hub when it ends, and "
            f"that needs a token: set {HUB_TOKEN} on the worker and add it to secrets, or remove "
            "upload_model and use `runspine export-hub`",
            "secrets",
        )


def check_packages(python: str, script: CleanrlScript, spec: RunSpec, found: Mapping[str, Any]) -> None:
    """Raises NotReadyError when the Python is too old or packages are missing."""
    if found["python"] < MIN_PYTHON:
        version = ".".join(map(str, found["python"]))
        raise NotReadyError(f"{python} is Python {version}: the launcher needs 3.10 or newer")
    missing = list(found["missing"])
    if records_video(spec) and set(VIDEO).issubset(found["absent"]):
        missing.append("moviepy")
    if missing:
        packages = " ".join(PIP_NAMES.get(name, name) for name in missing)
        raise NotReadyError(
            f"{script.name} imports {', '.join(missing)}, which {python} does not have: "
            f"{python} -m pip install {packages}",
            "runner",
        )


def check_gymnasium(script: CleanrlScript, found: Mapping[str, Any]) -> None:
    """Raises NotReadyError for a version of Gymnasium that the script cannot use."""
    version = found["versions"].get("gymnasium", "")
    if script.old_api and version.startswith("1.0."):
        raise NotReadyError(
            f"gymnasium {version} cannot reset an env in the step that ends its episode, as {script.name} "
            "expects: install 0.29.1, or 1.1 and newer, in the runner's Python"
        )


def check_env(script: CleanrlScript, env: str, found: Mapping[str, Any]) -> None:
    """Raises NotReadyError when the env is unknown, cannot be made or has other actions."""
    near = f" Here there are: {', '.join(found['near'])}." if found.get("near") else ""
    version = found["versions"].get("gymnasium", "")
    if "unknown" in found:
        atari = ATARI_HINT if env.startswith("ALE/") or "NoFrameskip-" in env else ""
        raise NotReadyError(
            f"env {env!r} is not known to gymnasium {version}: {found['unknown']}{near}{atari}"
        )
    if "unmade" in found:
        raise NotReadyError(f"env {env} cannot be made: {found['unmade']}{near}")
    kind = found.get("actions")
    if kind and script.actions and kind != script.actions:
        word, other = (
            ("discrete", "…_continuous_action")
            if script.actions == "Discrete"
            else ("continuous", "ppo or dqn")
        )
        raise NotReadyError(
            f"{script.name} takes {word} actions, and those of {env} are {found['actions_text']}: "
            f"choose another env, or a script such as {other}",
            "algo",
        )


def _default_env(script: CleanrlScript) -> str:
    return next((param.default.text for param in script.params if param.name == "env_id"), "")


def records_video(spec: RunSpec) -> bool:
    """Whether the script writes videos: of its training, or of the evaluation of a model that it saves."""
    return _is_set(spec, "capture_video") or (_is_set(spec, EVALUATES_WITH) and films_evaluation(spec))


def films_evaluation(spec: RunSpec) -> bool:
    """Whether the script's own evaluation may record videos, which it does unless it is asked not to."""
    return EVALUATION_VIDEO not in spec.params or spec.params[EVALUATION_VIDEO].boolean


def _is_set(spec: RunSpec, name: str) -> bool:
    return name in spec.params and spec.params[name].boolean


def _for_params(spec: RunSpec) -> list[str]:
    """Packages that a script imports only with certain parameters."""
    wanted = {"track": "wandb", "upload_model": "huggingface_hub"}
    found = [name for param, name in wanted.items() if param in spec.params and spec.params[param].boolean]
    # Without a key, W&B is replaced by a stub.
    return [name for name in found if name != "wandb" or "WANDB_API_KEY" in spec.secrets]

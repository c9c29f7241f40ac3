"""What a trainer finds in its environment: little, and named. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from runspine.plain import enum_word, plain_value
from runspine.runners import NotReady
from runspine.wire.v1.spec_pb2 import ObservationPolicy, RunSpec, Value
from services.worker.redact import SHORTEST

PASSED_ON = (
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
)
# Each of these takes every core for itself unless told otherwise; torch follows the first.
THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
RESERVED = "RUNSPINE_"
DEFAULT_SEED = 1


def secrets_of(spec: RunSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """The secrets a spec names, from the worker's own environment. Raises NotReady."""
    found = {}
    for name in spec.secrets:
        if name.startswith(RESERVED):
            raise NotReady(f"secret {name} belongs to the worker itself and is not given away")
        value = environment.get(name, "")
        if not value:
            raise NotReady(
                f"secret {name} is not set in the worker's environment: set it there, restart the worker"
            )
        if len(value) < SHORTEST:
            raise NotReady(
                f"secret {name} is shorter than {SHORTEST} characters: it could not be kept out of the logs"
            )
        found[name] = value
    return found


def known_secrets(spec: RunSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """Those that are there to be redacted, whether or not the run can start."""
    return {name: environment[name] for name in spec.secrets if environment.get(name)}


def trainer_environment(
    spec: RunSpec,
    environment: Mapping[str, str],
    *,
    run_id: str,
    attempt: int,
    run_dir: str,
    variables: Mapping[str, str],
    gpus: Sequence[str] = (),
) -> dict[str, str]:
    """Allow-listed variables, then the runner's, the spec's, its secrets, and ours last."""
    passed = {
        name: value for name, value in environment.items() if name in PASSED_ON or name.startswith("LC_")
    }
    ours = {
        "RUNSPINE_RUN_ID": run_id,
        "RUNSPINE_ATTEMPT": str(attempt),
        "RUNSPINE_RUN_DIR": run_dir,
        "RUNSPINE_SEED": str(spec.seed if spec.HasField("seed") else DEFAULT_SEED),
        "RUNSPINE_ENV_ID": spec.env,
        "RUNSPINE_ENV_KWARGS": _json(spec.env_kwargs),
        "RUNSPINE_ALGO": spec.algo,
        "RUNSPINE_TOTAL_STEPS": str(spec.total_steps or ""),
        "RUNSPINE_PARAMS": _json(spec.params),
        "RUNSPINE_CAPTURE": enum_word(ObservationPolicy.DESCRIPTOR, spec.capture.observations),
    }
    return {
        **passed,
        "PYTHONUNBUFFERED": "1",
        **dict.fromkeys(THREADS, str(threads_of(spec))),
        **variables,
        **spec.variables,
        **secrets_of(spec, environment),
        **{name: value for name, value in ours.items() if value},
        # Empty for a run without GPUs: it must not take one that another run was given.
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
    }


def threads_of(spec: RunSpec) -> int:
    """Threads for each numeric library: as many as whole cores were asked for, one when none were."""
    return max(1, int(spec.limits.cpus))


def _json(values: Mapping[str, Value]) -> str:
    return json.dumps({name: plain_value(value) for name, value in values.items()}, sort_keys=True)

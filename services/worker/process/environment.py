"""Environment variables of a trainer: an allow list, the spec's and the worker's. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from runspine.domain.defaults import DEFAULT_SEED
from runspine.frames import FRAMES
from runspine.instrument.startup_variables import MODE, startup_variables
from runspine.instrument.trackers.choice import MIRROR
from runspine.play.llm_settings import KEY as LLM_KEY
from runspine.runners import NotReadyError
from runspine.services.worker.process.proxies import proxy_secrets, proxy_variables
from runspine.services.worker.protocol.redact import MIN_SECRET_LENGTH
from runspine.services.worker.protocol.version import PROTOCOL
from runspine.services.worker.settings import DEFAULT_SECRETS, split_list
from runspine.spec.command_template import NoValueError, filled
from runspine.spec.plain import enum_word, plain_value
from runspine.wire.v1.spec_pb2 import ObservationPolicy, RunSpec, Value

PASSED_VARIABLES = (
    "PATH",
    "HOME",
    "LANG",
    "TZ",
    "TMPDIR",
    "VIRTUAL_ENV",
    "LD_LIBRARY_PATH",
)
# By default each of these libraries uses every core; torch follows the first variable.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
RESERVED_PREFIX = "RUNSPINE_"
# Ends of the names of the worker's own variables that hold a password.
OWN_PASSWORDS = ("_PASSWORD", "_SECRET_KEY", "_TOKEN", "_SEED", "_SIGNING_KEY")
# Shorter ones, of a test or a demonstration, are ordinary words.
MIN_PASSWORD_LENGTH = 12


def resolve_secrets(spec: RunSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """The values of the spec's secrets, from the worker's environment. Raises NotReadyError."""
    found = {}
    for name in spec.secrets:
        if name.startswith(RESERVED_PREFIX):
            raise NotReadyError(f"secret {name} belongs to the worker itself and is not given away")
        if not _is_offered(name, environment):
            raise NotReadyError(
                f"secret {name} is not one that this worker gives to runs: "
                "name it in RUNSPINE_WORKER_SECRETS there, restart the worker"
            )
        value = environment.get(name, "")
        if not value:
            raise NotReadyError(
                f"secret {name} is not set in the worker's environment: set it there, restart the worker"
            )
        if len(value) < MIN_SECRET_LENGTH:
            raise NotReadyError(
                f"secret {name} is shorter than {MIN_SECRET_LENGTH} characters: "
                "it could not be kept out of the logs"
            )
        found[name] = value
    return found


def known_secrets(spec: RunSpec, environment: Mapping[str, str]) -> dict[str, str]:
    """Secrets that are set and must be redacted, whether or not the run can start."""
    offered = [name for name in spec.secrets if _is_offered(name, environment)]
    given = {name: environment[name] for name in (*offered, LLM_KEY) if environment.get(name)}
    return {**_own_passwords(environment), **proxy_secrets(environment), **given}


def _is_offered(name: str, environment: Mapping[str, str]) -> bool:
    patterns = split_list(environment.get("RUNSPINE_WORKER_SECRETS", DEFAULT_SECRETS))
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _own_passwords(environment: Mapping[str, str]) -> dict[str, str]:
    """Passwords and keys of the worker itself. No trainer is given one; one that got hold of it prints it."""
    found = {
        name: value
        for name, value in environment.items()
        if name.startswith(RESERVED_PREFIX)
        and name.endswith(OWN_PASSWORDS)
        and not value.startswith("/")  # the path of a file
    }
    if seed := found.get("RUNSPINE_SIGNING_KEY", "").partition(":")[0]:
        # What follows it introduces the key, and is on the log.
        found["RUNSPINE_SIGNING_KEY"] = seed
    for url in split_list(environment.get("RUNSPINE_NATS_URL", "")):
        found.setdefault("RUNSPINE_NATS_URL", urlsplit(url).password or "")
    return {name: value for name, value in found.items() if len(value) >= MIN_PASSWORD_LENGTH}


def trainer_environment(
    spec: RunSpec,
    environment: Mapping[str, str],
    *,
    run_id: str,
    attempt: int,
    run_dir: str,
    variables: Mapping[str, str],
    gpus: Sequence[str] = (),
    wandb_proxy: bool = False,
) -> dict[str, str]:
    """Allow-listed variables, then the runner's, the spec's, its secrets, and the worker's own last."""
    passed = {
        name: value
        for name, value in environment.items()
        if name in PASSED_VARIABLES or name.startswith("LC_")
    }
    own = {
        "RUNSPINE_RUN_ID": run_id,
        "RUNSPINE_ATTEMPT": str(attempt),
        "RUNSPINE_RUN_DIR": run_dir,
        "RUNSPINE_SEED": str(spec.seed if spec.HasField("seed") else DEFAULT_SEED),
        "RUNSPINE_ENV_ID": spec.env,
        "RUNSPINE_ENV_KWARGS": _json(spec.env_kwargs),
        "RUNSPINE_ALGO": spec.algo,
        "RUNSPINE_TOTAL_STEPS": str(spec.total_steps or ""),
        "RUNSPINE_MAX_EPISODES": str(spec.max_episodes or ""),
        "RUNSPINE_PARAMS": _json(spec.params),
        "RUNSPINE_PROTOCOL": str(PROTOCOL),
        "RUNSPINE_FRAMES": str(FRAMES),
        "RUNSPINE_CAPTURE_WHOLE": str(spec.capture.whole or ""),
        "RUNSPINE_CAPTURE": enum_word(ObservationPolicy.DESCRIPTOR, spec.capture.observations),
        MIRROR: ",".join(spec.capture.mirror),
        "RUNSPINE_VERBOSE": "1" if spec.capture.verbose else "",
    }
    made = {
        **passed,
        "PYTHONUNBUFFERED": "1",
        # Whatever folder the program starts in: its W&B files belong to the run.
        "WANDB_DIR": run_dir,
        **dict.fromkeys(THREAD_VARIABLES, str(thread_limit(spec))),
        **proxy_variables(spec, environment, every_run=wandb_proxy),
        **variables,
        **_variables(spec),
        **resolve_secrets(spec, environment),
        **{name: value for name, value in own.items() if value},
        # Empty for a run without GPUs: it must not use one that another run holds.
        "CUDA_VISIBLE_DEVICES": ",".join(gpus),
    }
    if api := variables.get(MODE):
        made |= startup_variables(api, made.get("PYTHONPATH", ""))
    return made


def _variables(spec: RunSpec) -> dict[str, str]:
    """The spec's variables; those of a program with values for placeholders. Raises NotReadyError."""
    if spec.runner != "script":
        return dict(spec.variables)
    try:
        return dict(zip(spec.variables, filled(spec.variables.values(), spec), strict=True))
    except NoValueError as error:
        raise NotReadyError(f"variables: {error}", "variables") from error


def thread_limit(spec: RunSpec) -> int:
    """Threads for each numeric library: the whole cores that the spec requests, at least one."""
    return max(1, int(spec.limits.cpus))


def _json(values: Mapping[str, Value]) -> str:
    return json.dumps({name: plain_value(value) for name, value in values.items()}, sort_keys=True)

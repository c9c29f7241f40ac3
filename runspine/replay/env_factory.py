"""Makes the env of a record with Gymnasium."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import sys
import warnings
from collections.abc import Iterator
from typing import Any

from runspine.errors import RunspineError
from runspine.replay.agents_env import make_agents_env
from runspine.replay.allowed_modules import VARIABLE, refused_module, wrappers_of
from runspine.replay.providers import BY_IMPORT, module_for, package_for
from runspine.sdk.drawing import HEADLESS
from runspine.sdk.tagged_json import untagged
from runspine.spec.nearest import not_accepted
from runspine.wire.v1.telemetry_pb2 import EnvMade


class EnvMissingError(RunspineError):
    """The env of the record cannot be made here; the message gives the remedy."""

    def __init__(self, message: str, package: str = "") -> None:
        super().__init__(message)
        # For pip; empty when no package would help.
        self.package = package


def make_env(
    env: EnvMade, kwargs: dict[str, Any], render_mode: str | None = None, size: tuple[int, int] | None = None
) -> Any:
    """Make the env with its wrappers as recorded. Raises EnvMissingError.

    `size` is for envs that draw at any size (MuJoCo); others are scaled afterwards.
    """
    if not env.env_id:
        raise EnvMissingError("the record has no env: there is no `env` line in the telemetry of its slot")
    kwargs = {name: value for name, value in kwargs.items() if name != "render_mode"}
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    if env.agents:
        with _explained(env), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return make_agents_env(env, kwargs)
    if size and env.entry_point.startswith("gymnasium.envs.mujoco"):
        kwargs |= {"width": size[0], "height": size[1]}
    for name, value in HEADLESS.items():
        os.environ.setdefault(name, value)
    with _explained(env), warnings.catch_warnings():
        # Warnings of third-party packages; in one of them an error at import would end the interpreter.
        warnings.simplefilter("ignore")
        spec = _spec(env)
        return _gymnasium().make(spec, **kwargs, disable_env_checker=True)


def make_recorded_env(
    env: EnvMade, kwargs: dict[str, Any], render_mode: str | None = None, size: tuple[int, int] | None = None
) -> Any:
    """As `make_env`, for a record of anybody: it imports env packages alone. Raises EnvMissingError."""
    if refused := refused_module(env, os.environ):
        raise EnvMissingError(
            f"{env.env_id} was recorded with {refused}, which is not one of the env packages that a record "
            f"may have imported here: if you trust it, add its package to {VARIABLE}"
        )
    return make_env(env, kwargs, render_mode, size)


def close_env(env: Any) -> None:
    """Close and collect the env: a MuJoCo viewer that is collected later blackens the frames of others."""
    draws_by_itself = hasattr(env.unwrapped, "mujoco_renderer")
    env.close()
    del env
    if draws_by_itself:
        gc.collect()


def versions_now(recorded: dict[str, str]) -> dict[str, str]:
    """Versions of the recorded packages as installed here."""
    from importlib import metadata

    from runspine.sdk.identity import platform_versions

    found = platform_versions()
    for package in recorded.keys() - found.keys():
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found[package] = str(getattr(sys.modules.get(package), "__version__", ""))
    return {package: version for package, version in found.items() if version}


def _gymnasium() -> Any:
    import gymnasium

    return gymnasium


def _spec(env: EnvMade) -> Any:
    """The spec that Gymnasium has registered under the id, with the wrappers of the record."""
    import copy

    gymnasium = _gymnasium()
    if env.env_id not in gymnasium.registry:
        _register(env)
    spec = copy.deepcopy(gymnasium.spec(env.env_id))
    found = []
    for each in wrappers_of(env):
        name = each["entry_point"].rpartition(":")[2]
        if each["kwargs"] is None:
            raise EnvMissingError(
                f"{env.env_id} was recorded inside {name}, whose arguments are not on record: "
                "wrap what gymnasium.make gives, and put other wrappers around that"
            )
        _check_wrapper(each["entry_point"])
        wrapper = gymnasium.envs.registration.WrapperSpec
        found.append(wrapper(name, each["entry_point"], untagged(each["kwargs"])))
    spec.additional_wrappers = tuple(found)
    return spec


def _check_wrapper(entry_point: str) -> None:
    """Allow only wrappers: the name in a record may be anything that can be called."""
    module, _, name = entry_point.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if not (isinstance(found, type) and issubclass(found, _gymnasium().Wrapper)):
        raise EnvMissingError(f"the record names {entry_point} as a wrapper, which is none: it is not called")


def _register(env: EnvMade) -> None:
    """Import the module that registers the id."""
    module = module_for(env.env_id, env.entry_point)
    if module == "__main__":
        raise EnvMissingError(
            f"{env.env_id} was defined in the trainer's own script: put the env into a module that can be "
            "imported, so that it can be made elsewhere"
        )
    if not module:
        return
    parent = module.partition(".")[0]
    loaded = importlib.import_module(parent)
    if parent == "ale_py":
        loaded.ALEInterface.setLoggerMode(loaded.LoggerMode.Error)
        _gymnasium().register_envs(loaded)
    if env.env_id not in _gymnasium().registry:
        importlib.import_module(module)


@contextlib.contextmanager
def _explained(env: EnvMade) -> Iterator[None]:
    """Translate any error of Gymnasium or the env into EnvMissingError with a remedy."""
    package = package_for(env.env_id, env.entry_point, env.versions)
    try:
        yield
    except EnvMissingError:
        raise
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        wanted = BY_IMPORT.get(name) or (package if name == package.replace("-", "_") else "")
        raise EnvMissingError(_not_here(env, name, wanted), wanted) from error
    except Exception as error:
        gymnasium = sys.modules.get("gymnasium")
        if gymnasium is None:
            raise EnvMissingError(f"{env.env_id} cannot be made: {error}") from error
        if isinstance(error, gymnasium.error.DependencyNotInstalled):
            raise EnvMissingError(_not_here(env, package or "a package", package), package) from error
        if isinstance(error, gymnasium.error.UnregisteredEnv):
            raise EnvMissingError(_unknown(env, package, list(gymnasium.registry)), package) from error
        reason = str(error) or type(error).__name__
        raise EnvMissingError(f"{env.env_id} cannot be made here: {reason}") from error


def _not_here(env: EnvMade, module: str, package: str) -> str:
    if not package:
        return (
            f"{env.env_id} needs the module {module}, which cannot be imported here: install it, or run "
            "where it can be found (PYTHONPATH)"
        )
    version = env.versions.get(package, "")
    pinned = f"{package}=={version}" if version else package
    return f"{env.env_id} needs {module}, which is not installed here: pip install '{pinned}'"


def _unknown(env: EnvMade, package: str, known: list[str]) -> str:
    near = not_accepted(env.env_id, known).partition(". ")[2]
    version = env.versions.get("gymnasium", "")
    recorded = f" It was recorded with gymnasium {version}." if version else ""
    remedy = f" Perhaps: pip install '{package}'." if package else ""
    return f"{env.env_id} is not an env that Gymnasium knows here.{recorded}{remedy} {near}".rstrip()

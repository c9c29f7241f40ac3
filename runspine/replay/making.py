"""The env of a record, made again: the shell around Gymnasium."""

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
from runspine.nearest import not_accepted
from runspine.replay.providers import BY_IMPORT, module_for, package_for
from runspine.sdk.drawing import HEADLESS
from runspine.sdk.tagged import untagged
from runspine.wire.v1.telemetry_pb2 import EnvMade


class NoEnv(RunspineError):
    """The env of the record cannot be made here; the message says what to install or to do."""

    def __init__(self, message: str, package: str = "") -> None:
        super().__init__(message)
        # For pip; empty when no package would help.
        self.package = package


def make_env(
    said: EnvMade, kwargs: dict[str, Any], render_mode: str | None = None, size: tuple[int, int] | None = None
) -> Any:
    """The env with its wrappers, as the record saw it. Raises NoEnv.

    `size` is for envs that draw at any size (MuJoCo); others are scaled afterwards.
    """
    if not said.env_id:
        raise NoEnv("the record does not say what env it was: no `env` line in the telemetry of its slot")
    kwargs = {name: value for name, value in kwargs.items() if name != "render_mode"}
    if render_mode is not None:
        kwargs["render_mode"] = render_mode
    if size and said.entry_point.startswith("gymnasium.envs.mujoco"):
        kwargs |= {"width": size[0], "height": size[1]}
    for name, value in HEADLESS.items():
        os.environ.setdefault(name, value)
    with _explained(said), warnings.catch_warnings():
        # Of other people's packages; in one of them an error at import would end the interpreter.
        warnings.simplefilter("ignore")
        spec = _spec(said)
        return _gymnasium().make(spec, **kwargs, disable_env_checker=True)


def close_env(env: Any) -> None:
    """And collect what is left of it: a MuJoCo viewer that goes later blackens the frames of others."""
    draws_by_itself = hasattr(env.unwrapped, "mujoco_renderer")
    env.close()
    del env
    if draws_by_itself:
        gc.collect()


def versions_now(recorded: dict[str, str]) -> dict[str, str]:
    """The same packages as they are here."""
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


def _spec(said: EnvMade) -> Any:
    """What Gymnasium has registered under the id, with the wrappers of the record."""
    import copy
    import json

    gymnasium = _gymnasium()
    if said.env_id not in gymnasium.registry:
        _register(said)
    spec = copy.deepcopy(gymnasium.spec(said.env_id))
    wrappers = json.loads(said.wrappers_json) if said.wrappers_json else []
    found = []
    for each in wrappers:
        name = each["entry_point"].rpartition(":")[2]
        if each["kwargs"] is None:
            raise NoEnv(
                f"{said.env_id} was recorded inside {name}, whose arguments are not on record: "
                "wrap what gymnasium.make gives, and put other wrappers around that"
            )
        _check_wrapper(each["entry_point"])
        wrapper = gymnasium.envs.registration.WrapperSpec
        found.append(wrapper(name, each["entry_point"], untagged(each["kwargs"])))
    spec.additional_wrappers = tuple(found)
    return spec


def _check_wrapper(entry_point: str) -> None:
    """A record names what is called: only a wrapper may be."""
    module, _, name = entry_point.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    if not (isinstance(found, type) and issubclass(found, _gymnasium().Wrapper)):
        raise NoEnv(f"the record names {entry_point} as a wrapper, which is none: it is not called")


def _register(said: EnvMade) -> None:
    """Import what registers the id."""
    module = module_for(said.env_id, said.entry_point)
    if module == "__main__":
        raise NoEnv(
            f"{said.env_id} was defined in the trainer's own script: put the env into a module that can be "
            "imported, so that it can be made elsewhere"
        )
    if not module:
        return
    parent = module.partition(".")[0]
    loaded = importlib.import_module(parent)
    if parent == "ale_py":
        loaded.ALEInterface.setLoggerMode(loaded.LoggerMode.Error)
        _gymnasium().register_envs(loaded)
    if said.env_id not in _gymnasium().registry:
        importlib.import_module(module)


@contextlib.contextmanager
def _explained(said: EnvMade) -> Iterator[None]:
    """Whatever goes wrong in other people's code, in a sentence with a remedy."""
    package = package_for(said.env_id, said.entry_point, said.versions)
    try:
        yield
    except NoEnv:
        raise
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        wanted = BY_IMPORT.get(name) or (package if name == package.replace("-", "_") else "")
        raise NoEnv(_not_here(said, name, wanted), wanted) from error
    except Exception as error:
        gymnasium = sys.modules.get("gymnasium")
        if gymnasium is None:
            raise NoEnv(f"{said.env_id} cannot be made: {error}") from error
        if isinstance(error, gymnasium.error.DependencyNotInstalled):
            raise NoEnv(_not_here(said, package or "a package", package), package) from error
        if isinstance(error, gymnasium.error.UnregisteredEnv):
            raise NoEnv(_unknown(said, package, list(gymnasium.registry)), package) from error
        reason = str(error) or type(error).__name__
        raise NoEnv(f"{said.env_id} cannot be made here: {reason}") from error


def _not_here(said: EnvMade, module: str, package: str) -> str:
    if not package:
        return (
            f"{said.env_id} needs the module {module}, which cannot be imported here: install it, or run "
            "where it can be found (PYTHONPATH)"
        )
    version = said.versions.get(package, "")
    pinned = f"{package}=={version}" if version else package
    return f"{said.env_id} needs {module}, which is not installed here: pip install '{pinned}'"


def _unknown(said: EnvMade, package: str, known: list[str]) -> str:
    near = not_accepted(said.env_id, known).partition(". ")[2]
    version = said.versions.get("gymnasium", "")
    recorded = f" It was recorded with gymnasium {version}." if version else ""
    remedy = f" Perhaps: pip install '{package}'." if package else ""
    return f"{said.env_id} is not an env that Gymnasium knows here.{recorded}{remedy} {near}".rstrip()

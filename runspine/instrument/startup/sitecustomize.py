"""Instruments this Python process when it imports something that can be recorded.

Imported by every interpreter of an instrumented run, of any version and any virtualenv, before the program
itself. Until the program imports one of the watched modules this costs nothing, and it never fails: a process
that cannot be instrumented runs as it is, and the run's log states it once. Standard library only.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MODE = "RUNSPINE_INSTRUMENT"
OFF = "off"
WATCHED = (
    "gymnasium",
    "tensorboard.summary.writer.event_file_writer",
    "tensorboardX.event_file_writer",
    "wandb",
    "trackio",
    "mlflow",
    "swanlab",
    "aim",
)
NOTED = ".not-instrumented"
HERE = os.path.dirname(os.path.abspath(__file__))


# Parsers of command lines: what they return for the program's own is its configuration.
PARSERS = ("argparse", "tyro", "hydra.core.utils", "omegaconf.omegaconf")
RANKS = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
SECRET = ("password", "passwd", "token", "secret", "api_key", "apikey", "credential")
MAX_TEXT = 1000


class ParserFinder:
    """Patches parsers as they are imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in PARSERS:
            return None
        others = (finder for finder in list(sys.meta_path) if finder is not self)
        found = (finder.find_spec(name, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        loader: Any = spec.loader if spec is not None else None
        if loader is None or isinstance(loader, type):
            return spec
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            execute(module)
            PATCHES[name](module)

        # Of this spec alone: a loader of source files is made for each.
        loader.exec_module = exec_module
        return spec


def patch_argparse(module: Any) -> None:
    parse = module.ArgumentParser.parse_known_args

    def parse_known_args(self: Any, args: Any = None, namespace: Any = None) -> Any:
        result = parse(self, args, namespace)
        # tyro and hydra have parsers of their own, with names that are not the program's.
        own = args is None or list(args) == sys.argv[1:]
        if own and not type(self).__module__.startswith("tyro") and not is_called_by("hydra"):
            report(vars(result[0]))
        return result

    module.ArgumentParser.parse_known_args = parse_known_args


def patch_tyro(module: Any) -> None:
    cli = module.cli

    def recorded(*args: Any, **kwargs: Any) -> Any:
        result = cli(*args, **kwargs)
        if kwargs.get("args") is None:
            report(getattr(result, "__dict__", {}))
        return result

    module.cli = recorded


def patch_hydra(module: Any) -> None:
    """The composed configuration, without hydra's own part, as the program's function receives it."""
    run_job = module.run_job

    def recorded(task_function: Any, *args: Any, **kwargs: Any) -> Any:
        def task(config: Any) -> Any:
            report_omega(config)
            return task_function(config)

        return run_job(task, *args, **kwargs)

    module.run_job = recorded


def patch_omegaconf(module: Any) -> None:
    """What the command line gives, and what it is merged into."""
    kind = module.OmegaConf
    from_cli, given = kind.from_cli, []

    def parsed(*args: Any, **kwargs: Any) -> Any:
        result = from_cli(*args, **kwargs)
        if not args and not kwargs:
            given.append(result)
            report_omega(result)
        return result

    def merging(merge: Any) -> Any:
        def merged(*configs: Any, **kwargs: Any) -> Any:
            result = merge(*configs, **kwargs)
            if any(config is each for config in configs for each in given):
                given.append(result)
                report_omega(result)
            return result

        return merged

    kind.from_cli = staticmethod(parsed)
    for name in ("merge", "unsafe_merge"):
        setattr(kind, name, staticmethod(merging(getattr(kind, name))))


def report_omega(config: Any) -> None:
    """A configuration of OmegaConf, interpolations resolved where that is possible."""
    try:
        kind = sys.modules["omegaconf"].OmegaConf
        try:
            values = kind.to_container(config, resolve=True, enum_to_str=True)
        except Exception:  # noqa: BLE001 - a value that is missing, or a resolver of the program
            values = kind.to_container(config, resolve=False, enum_to_str=True)
    except Exception as error:  # noqa: BLE001 - any version; the program goes on
        note(error)
        return
    if isinstance(values, dict):
        report({str(name): value for name, value in values.items()})


PATCHES = {
    "argparse": patch_argparse,
    "tyro": patch_tyro,
    "hydra.core.utils": patch_hydra,
    "omegaconf.omegaconf": patch_omegaconf,
}


def is_called_by(package: str) -> bool:
    """Whether argparse was called by this package."""
    frame: Any = sys._getframe(2)
    while frame is not None and frame.f_globals.get("__name__") in ("argparse", __name__):
        frame = frame.f_back
    name = frame.f_globals.get("__name__", "") if frame is not None else ""
    return bool(name.partition(".")[0] == package)


def report(arguments: Any) -> None:
    """Send the arguments of the program to the worker, as its configuration."""
    try:
        address = os.environ.get("RUNSPINE_TELEMETRY_SOCKET", "")
        if not address or not is_program() or any(os.environ.get(name, "0") != "0" for name in RANKS):
            return
        import json
        import socket

        kept = {name: plain(name, value) for name, value in arguments.items() if not callable(value)}
        line = json.dumps({"type": "config", "args": kept}) + "\n"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.connect(address)
            connection.sendall(line.encode())
    except Exception as error:  # noqa: BLE001 - arguments of any kind; the program goes on
        note(error)


def plain(name: str, value: Any) -> Any:
    """A value for JSON; secrets by their names are struck out."""
    if any(word in name.lower() for word in SECRET) and value not in (None, ""):
        return "***"
    if isinstance(value, (bool, int, float, str)) or value is None:
        return value[:MAX_TEXT] if isinstance(value, str) else value
    if isinstance(value, (list, tuple)):
        return [plain(name, each) for each in value]
    if isinstance(value, dict):
        return {str(key): plain(str(key), each) for key, each in value.items()}
    if hasattr(value, "__dataclass_fields__"):
        return {key: plain(key, getattr(value, key)) for key in value.__dataclass_fields__}
    return str(value)[:MAX_TEXT]


def is_program() -> bool:
    """Whether this process runs the user's program: not a tool of its virtualenv or of Python itself."""
    path = getattr(sys.modules.get("__main__"), "__file__", None)
    if path is None:
        return True
    folder = os.path.dirname(os.path.abspath(path))
    tools = (os.path.dirname(sys.executable), os.path.dirname(os.path.abspath(os.__file__)))
    return "site-packages" not in folder and folder not in tools


class ActivatingFinder:
    """First in `sys.meta_path`, until a watched module is imported."""

    # By which `runspine.instrument` finds it; this file is imported under another name.
    waits_for_runspine = True

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in WATCHED:
            return None
        sys.meta_path.remove(self)
        if os.environ.get(MODE, OFF) != OFF:
            activate()
        # `sys.meta_path` has changed while Python searches it: the search is done here.
        found = (finder.find_spec(name, path, target) for finder in list(sys.meta_path))
        return next((spec for spec in found if spec is not None), None)


def activate() -> None:
    """Install the instrumentation; note when this interpreter cannot have it."""
    try:
        import runpy

        # Nothing but the program itself has imported it.
        uses_sdk = "runspine" in sys.modules
        runpy.run_path(os.path.join(os.path.dirname(HERE), "importable.py"))
        from runspine.instrument.transparent import begin

        begin(os.environ[MODE], uses_sdk=uses_sdk)
    except Exception as error:  # noqa: BLE001 - an interpreter and packages of any version
        note(error)


def note(error: Exception) -> None:
    """Print once for the run why a process is not recorded."""
    try:
        path = os.path.join(os.environ["RUNSPINE_RUN_DIR"], NOTED)
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        why = f"{sys.executable} is not recorded: {type(error).__name__}: {error}"
        remedy = "Install numpy there and use Python 3.10 or newer, or set capture.instrument to false"
        sys.stderr.write(f"runspine: {why}. {remedy}\n")
    except (KeyError, OSError):
        pass


def run_next() -> None:
    """Leave the path, and run the `sitecustomize` that this one has hidden."""
    sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != HERE]
    spec = importlib.machinery.PathFinder.find_spec(__name__)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        sys.modules[__name__] = module
        spec.loader.exec_module(module)


if __name__ == "sitecustomize":
    if os.environ.get(MODE, OFF) != OFF and os.environ.get("RUNSPINE_RUN_ID"):
        sys.meta_path[:0] = [ActivatingFinder(), ParserFinder()]
    run_next()

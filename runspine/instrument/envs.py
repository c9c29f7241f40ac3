"""Patches Gymnasium so that every env is recorded, in the slot of its vector env."""

from __future__ import annotations

import functools
import importlib
import threading
import weakref
from collections.abc import Callable
from typing import Any

from runspine.instrument import compat, videos
from runspine.instrument.record import is_evaluation, record
from runspine.instrument.slots import InSlot, SlotPlace, take_place

# Packages whose envs Gymnasium 1.x does not register by itself.
PLUGINS = ("ale_py", "minigrid")
_making = threading.local()


def patch(gymnasium: Any, *, old_api: bool) -> None:
    if old_api and not gymnasium.__version__.startswith("0."):
        compat.apply(gymnasium)
    registration = gymnasium.envs.registration
    gymnasium.make = registration.make = recording_make(gymnasium, registration.make)
    for kind in (gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv):
        kind.__init__ = placing_init(kind.__init__)
    if hasattr(gymnasium, "make_vec"):
        make_vec = recording_make_vec(gymnasium, registration.make_vec)
        gymnasium.make_vec = registration.make_vec = make_vec
    videos.patch(gymnasium.wrappers.RecordVideo)


def recording_make(gymnasium: Any, make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def recorded(id: Any, *args: Any, **kwargs: Any) -> Any:
        if getattr(_making, "inside", False):
            # An env that makes another to wrap it: only the outer one is recorded.
            return make(id, *args, **kwargs)
        place = take_place()
        _making.inside = True
        try:
            env = _made(gymnasium, make, id, args, _with_run_kwargs(id, kwargs))
        finally:
            _making.inside = False
        return tapped(env, place)

    return recorded


def tapped(env: Any, place: SlotPlace | None) -> Any:
    if record.stood_down or not record.run.active:
        # Nothing is recorded here: the env stays unwrapped.
        return env
    from runspine.instrument.env_recorder import TappedEnv
    from runspine.sdk.batch.wrappers import RecordedBatchedEnv, env_count

    record.configure()
    if count := env_count(env):
        held, slots = record.ledger.take(count, "one array")
        weakref.finalize(env, record.ledger.give_back, held).atexit = False
        return RecordedBatchedEnv(env, record.run, slots.start, count)
    ticket = None
    if place is None:
        ticket, place = record.place(getattr(env.spec, "id", None) or type(env.unwrapped).__name__)
    recorded = TappedEnv(env, place, ticket)
    record.add_tapped(recorded)
    return recorded


def _made(gymnasium: Any, make: Callable[..., Any], id: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    try:
        return make(id, *args, **kwargs)
    except gymnasium.error.UnregisteredEnv:
        if record.transparent or not register_plugins():
            raise
        return make(id, *args, **kwargs)


def register_plugins() -> bool:
    """Import installed packages that register envs; return whether there were any."""
    found = False
    for name in PLUGINS:
        try:
            importlib.import_module(name)
        except ImportError:
            continue
        found = True
    return found


def _with_run_kwargs(id: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Add the run's arguments of its env: scripts have no option for them."""
    run = record.run
    name = id if isinstance(id, str) else getattr(id, "id", "")
    given = run.env_kwargs if name == run.env_id and not record.transparent else {}
    return {**kwargs, **given} if given else kwargs


def placing_init(init: Callable[..., None]) -> Callable[..., None]:
    """Patch the constructor of a vector env so that its functions know their slots."""

    @functools.wraps(init)
    def placed(self: Any, env_fns: Any, *args: Any, **kwargs: Any) -> None:
        functions = list(env_fns)
        if record.stood_down:
            # The program takes its slots itself.
            init(self, functions, *args, **kwargs)
            return
        evaluation = is_evaluation()
        ticket, slots = record.ledger.take(len(functions), evaluation)
        weakref.finalize(self, record.ledger.give_back, ticket).atexit = False
        pairs = zip(functions, slots, strict=True)
        init(self, [InSlot(fn, SlotPlace(slot, evaluation)) for fn, slot in pairs], *args, **kwargs)

    return placed


def recording_make_vec(gymnasium: Any, make_vec: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make_vec)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        envs = make_vec(*args, **kwargs)
        inside = (gymnasium.vector.SyncVectorEnv, gymnasium.vector.AsyncVectorEnv)
        if isinstance(envs.unwrapped, inside) or record.stood_down or not record.run.active:
            return envs
        # Envs in one array: recorded from outside.
        from runspine.sdk.wrapping import wrapped

        ticket, slots = record.ledger.take(envs.num_envs, "one array")
        weakref.finalize(envs, record.ledger.give_back, ticket).atexit = False
        return wrapped(record.run, envs, slots.start)

    return recorded


NOT_RECORDED = (
    "an EnvPool of this kind is not recorded: make it with env_type='gymnasium' and all envs in a batch"
)


def patch_envpool(envpool: Any) -> None:
    """EnvPool makes vector envs of Gymnasium by functions of its own."""
    for name in ("make", "make_gymnasium", "make_gym", "make_dm"):
        if callable(made := getattr(envpool, name, None)):
            setattr(envpool, name, recording_pool(made))


def recording_pool(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        envs = make(*args, **kwargs)
        if record.stood_down or not record.run.active:
            return envs
        from gymnasium.vector import VectorEnv

        count = int(getattr(envs, "num_envs", 0))
        batch = getattr(envs, "config", {}).get("batch_size") or count
        if not isinstance(envs, VectorEnv) or batch != count:
            record.run.note(NOT_RECORDED)
            return envs
        from runspine.sdk.wrapping import wrapped

        record.configure()
        ticket, slots = record.ledger.take(count, "one array")
        found = wrapped(record.run, envs, slots.start)
        weakref.finalize(found, record.ledger.give_back, ticket).atexit = False
        return found

    return recorded

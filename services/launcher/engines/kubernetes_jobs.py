"""Launcher on Kubernetes: one Job for each attempt."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any, TypeVar

import structlog
import urllib3
from kubernetes import client, config, watch
from kubernetes.client.exceptions import ApiException
from kubernetes.config.config_exception import ConfigException
from pydantic import ValidationError

from runspine.services.launcher.core.placement import Placement, PlacementState
from runspine.services.launcher.engines.job import ATTEMPT, POOL, RUN, TRY, job
from runspine.services.launcher.engines.port import EngineAwayError, NotLaunchableError
from runspine.services.launcher.pools import KubernetesPool
from runspine.wire.v1.run_pb2 import Run

log = structlog.get_logger()

T = TypeVar("T")
WATCH_SECONDS = 240
RETRY_SECONDS = 1.0
CALL_SECONDS = 15.0
# Some releases of the library are typed, others are not.
Watch: Any = watch.Watch
API_ERRORS = (ApiException, urllib3.exceptions.HTTPError, OSError)


def connect_api() -> Any:
    """The API with the pod's service account, else with the user's kubeconfig. Raises EngineAwayError."""
    try:
        try:
            config.load_incluster_config()
        except ConfigException:
            config.load_kube_config()
    except (ConfigException, OSError) as error:
        raise EngineAwayError(f"no configuration for a Kubernetes API: {error}") from error
    return client.BatchV1Api()


class KubernetesJobs:
    """Launcher with Kubernetes Jobs."""

    def __init__(self, api: Any, pool_name: str, pool: KubernetesPool) -> None:
        self._api = api
        self._name = pool_name
        self._pool = pool
        self._jobs: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._trouble = "the Jobs were not listed yet"
        self._closed = threading.Event()
        self._watch = Watch()
        self._thread = threading.Thread(target=self._follow, name=f"jobs-{pool_name}", daemon=True)
        self._thread.start()

    async def launch(self, run: Run) -> None:
        body = job(run, self._name, self._pool, self._next_try(run))
        try:
            made = await self._call(self._api.create_namespaced_job, self._pool.namespace, body)
        except ValidationError as error:
            # Newer clients check a body before they send it.
            raise NotLaunchableError(str(error)) from error
        except ApiException as error:
            if error.status == 409:
                return  # it exists already
            if error.status in (400, 422):
                raise NotLaunchableError(_message(error)) from error
            raise EngineAwayError(_message(error)) from error
        with self._lock:
            self._jobs[made.metadata.name] = made

    async def cancel(self, placement: Placement) -> None:
        try:
            await self._call(
                self._api.delete_namespaced_job,
                placement.name,
                self._pool.namespace,
                propagation_policy="Background",
            )
        except ApiException as error:
            if error.status != 404:
                raise EngineAwayError(_message(error)) from error
        with self._lock:
            self._jobs.pop(placement.name, None)

    async def placements(self) -> list[Placement]:
        with self._lock:
            if self._trouble:
                raise EngineAwayError(self._trouble)
            return [_placement(found) for found in self._jobs.values()]

    async def close(self) -> None:
        self._closed.set()
        self._watch.stop()

    def _next_try(self, run: Run) -> int:
        with self._lock:
            tries = [
                int(found.metadata.labels[TRY])
                for found in self._jobs.values()
                if (found.metadata.labels[RUN], found.metadata.labels[ATTEMPT]) == (run.id, str(run.attempt))
            ]
        return max(tries, default=0) + 1

    async def _call(self, function: Callable[..., T], *arguments: Any, **named: Any) -> T:
        try:
            return await asyncio.to_thread(function, *arguments, **named, _request_timeout=CALL_SECONDS)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise EngineAwayError(str(error)) from error

    def _follow(self) -> None:
        """List, then watch; list again whenever the watch ends. Runs in a thread until closed."""
        while not self._closed.is_set():
            try:
                version = self._list()
                self._watch_from(version)
            except API_ERRORS as error:
                message = _message(error) if isinstance(error, ApiException) else str(error)
                if isinstance(error, ApiException) and error.status == 410:
                    continue  # the watch is too far behind: list again
                with self._lock:
                    if message != self._trouble:
                        log.warning("jobs.away", pool=self._name, error=message)
                    self._trouble = message or type(error).__name__
                self._closed.wait(RETRY_SECONDS)

    def _list(self) -> str:
        found = self._api.list_namespaced_job(
            self._pool.namespace, label_selector=f"{POOL}={self._name}", _request_timeout=CALL_SECONDS
        )
        with self._lock:
            self._jobs = {each.metadata.name: each for each in found.items}
            self._trouble = ""
        return str(found.metadata.resource_version)

    def _watch_from(self, version: str) -> None:
        for event in self._watch.stream(
            self._api.list_namespaced_job,
            self._pool.namespace,
            label_selector=f"{POOL}={self._name}",
            resource_version=version,
            timeout_seconds=WATCH_SECONDS,
            _request_timeout=(CALL_SECONDS, WATCH_SECONDS + CALL_SECONDS),
        ):
            found = event["object"]
            with self._lock:
                if event["type"] == "DELETED":
                    self._jobs.pop(found.metadata.name, None)
                else:
                    self._jobs[found.metadata.name] = found
            if self._closed.is_set():
                return


def _placement(found: Any) -> Placement:
    labels, status = found.metadata.labels, found.status
    state, reason = PlacementState.WAITING, "suspended" if found.spec.suspend else ""
    if status is not None and (status.ready or 0) > 0:
        state = PlacementState.RUNNING
    for condition in (status.conditions if status is not None else None) or []:
        if condition.type in ("Complete", "Failed") and condition.status == "True":
            state, reason = PlacementState.OVER, condition.message or condition.reason or ""
    return Placement(found.metadata.name, labels[RUN], int(labels[ATTEMPT]), state, reason)


def _message(error: ApiException) -> str:
    return f"Kubernetes API: {error.status} {error.reason}: {str(error.body or '').strip()[:300]}"

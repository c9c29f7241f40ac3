"""The manifest of the Kubernetes Job of one attempt. Pure."""

from __future__ import annotations

from typing import Any

from runspine.services.launcher.pools import KubernetesPool
from runspine.wire.v1.run_pb2 import Run

RUN, ATTEMPT, POOL, TRY = (f"runspine.dev/{name}" for name in ("run", "attempt", "pool", "try"))
QUEUE = "kueue.x-k8s.io/queue-name"
WORK_DIR = "/data"
# Room for the spool, in addition to the disk that a run names.
SPOOL_MIB = 2048


def job(run: Run, pool_name: str, pool: KubernetesPool, tries: int) -> dict[str, Any]:
    labels = {
        "app.kubernetes.io/name": "runspine-run",
        "app.kubernetes.io/part-of": "runspine",
        "app.kubernetes.io/managed-by": "runspine-launcher",
        RUN: run.id,
        ATTEMPT: str(run.attempt),
        POOL: pool_name,
        TRY: str(tries),
    }
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job_name(run, tries),
            "namespace": pool.namespace,
            "labels": {**labels, **({QUEUE: pool.queue} if pool.queue else {})},
            "annotations": {"runspine.dev/name": run.name},
        },
        "spec": {
            # One pod, once: the orchestrator decides on another attempt.
            "backoffLimit": 0,
            "completions": 1,
            "parallelism": 1,
            "suspend": pool.queue is not None,
            "ttlSecondsAfterFinished": pool.ttl_seconds,
            "template": {"metadata": {"labels": labels}, "spec": _pod(run, pool_name, pool)},
        },
    }


def job_name(run: Run, tries: int) -> str:
    return f"runspine-{run.id.lower()}-{run.attempt}-{tries}"


def _pod(run: Run, pool_name: str, pool: KubernetesPool) -> dict[str, Any]:
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "serviceAccountName": pool.service_account,
        # A trainer is untrusted code: it gets no access to the cluster.
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": pool.termination_seconds,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": 10001,
            "runAsGroup": 10001,
            "fsGroup": 10001,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(run, pool_name, pool)],
        "volumes": [
            {"name": "data", "emptyDir": {"sizeLimit": f"{_disk_mib(run, pool)}Mi"}},
            {"name": "tmp", "emptyDir": {}},
            {"name": "shm", "emptyDir": {"medium": "Memory"}},
        ],
    }
    optional = {
        "nodeSelector": pool.node_selector,
        "tolerations": pool.tolerations,
        "runtimeClassName": pool.runtime_class,
        "priorityClassName": _priority_class(run, pool),
        "imagePullSecrets": [{"name": name} for name in pool.image_pull_secrets],
    }
    return {**pod, **{name: value for name, value in optional.items() if value}}


def _container(run: Run, pool_name: str, pool: KubernetesPool) -> dict[str, Any]:
    variables = {
        **pool.variables,
        "HOME": WORK_DIR,
        "RUNSPINE_WORKER_ONLY_RUN": run.id,
        "RUNSPINE_WORKER_DIR": f"{WORK_DIR}/worker",
        "RUNSPINE_WORKER_POOLS": pool_name,
        "RUNSPINE_WORKER_SLOTS": "1",
        "RUNSPINE_DRAIN_SECONDS": str(max(1, pool.termination_seconds - 10)),
    }
    return {
        "name": "worker",
        "image": pool.image,
        "imagePullPolicy": pool.image_pull_policy,
        "args": ["serve", "worker"],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "envFrom": [
            *({"configMapRef": {"name": name}} for name in pool.config_maps),
            *({"secretRef": {"name": name}} for name in pool.secrets),
            *({"secretRef": {"name": name, "optional": True}} for name in pool.optional_secrets),
        ],
        "resources": _resources(run, pool),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "volumeMounts": [
            {"name": "data", "mountPath": WORK_DIR},
            {"name": "tmp", "mountPath": "/tmp"},
            {"name": "shm", "mountPath": "/dev/shm"},
        ],
    }


def _resources(run: Run, pool: KubernetesPool) -> dict[str, Any]:
    """Memory is a limit, because exceeding it harms others; cores are a request only."""
    limits = run.spec.limits
    memory = f"{(limits.memory_mib or pool.memory_mib) + pool.overhead_mib}Mi"
    cpu = f"{round((limits.cpus or pool.cpus) * 1000)}m"
    gpus = {pool.gpu_resource: str(run.spec.gpus)} if run.spec.gpus else {}
    return {"requests": {"cpu": cpu, "memory": memory, **gpus}, "limits": {"memory": memory, **gpus}}


def _disk_mib(run: Run, pool: KubernetesPool) -> int:
    named = run.spec.limits.disk_mib
    return named + SPOOL_MIB if named else pool.disk_gib * 1024


def _priority_class(run: Run, pool: KubernetesPool) -> str:
    reached = [minimum for minimum in pool.priority_classes if run.priority >= minimum]
    return pool.priority_classes[max(reached)] if reached else ""

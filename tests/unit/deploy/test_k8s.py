"""deploy/k8s: every manifest renders and is what Kubernetes' published schema allows."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import kubernetes_validate
import pytest
import yaml

from runspine.eventlog.permissions import USERS
from runspine.service.bootstrap import service_keys
from runspine.services.launcher.engines.job import job
from runspine.services.launcher.pools import KubernetesPool, PoolsFileError, RayPool, read_pools
from runspine.storage.bucket_rights import SERVICES
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import Limits, RunSpec
from tests.kit.paths import ROOT

K8S = ROOT / "deploy" / "k8s"
VERSION = "1.34"
# Kinds of operators; their schemas are not Kubernetes' own.
OTHERS = {"ScaledObject", "ServiceMonitor"}


def module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def rendered(overlay: str, k8s: Path = K8S) -> list[dict[str, Any]]:
    return [each for each in yaml.load_all(kustomized(k8s / "overlays" / overlay), yaml.CSafeLoader) if each]


@cache
def kustomized(overlay: Path) -> str:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which renders kustomize, is not installed")
    done = subprocess.run(["kubectl", "kustomize", str(overlay)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def of(manifests: list[dict[str, Any]], *kinds: str) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in manifests if each["kind"] in kinds}


@pytest.mark.parametrize("overlay", ["small", "production"])
def test_every_rendered_manifest_is_valid(overlay: str) -> None:
    manifests = rendered(overlay)
    checked = [each for each in manifests if each["kind"] not in OTHERS]
    for manifest in checked:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    assert len(checked) > 30


@pytest.mark.parametrize("overlay", ["small", "production"])
def test_every_workload_is_probed_limited_and_closed(overlay: str) -> None:
    manifests = rendered(overlay)
    workloads = of(manifests, "Deployment", "StatefulSet")
    assert {
        "orchestrator", "telemetry", "artifacts", "janitor", "dashboard", "worker", "launcher", "notices"
    } <= workloads.keys()  # fmt: skip
    for name, workload in workloads.items():
        pod = workload["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys(), name
        assert {"memory", "cpu"} <= container["resources"]["requests"].keys()
        assert "memory" in container["resources"]["limits"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        if name != "launcher":
            assert pod["automountServiceAccountToken"] is False
    assert of(manifests, "PodDisruptionBudget").keys() >= workloads.keys() - {"launcher"}
    closed = of(manifests, "NetworkPolicy")["closed"]["spec"]
    assert closed == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def made_secrets(**more: str) -> list[dict[str, Any]]:
    """What the tool makes of a complete .env."""
    tool = module(K8S / "secrets.py")
    variables = {f"RUNSPINE_NATS_{user.upper()}_PASSWORD": "p1" for user in USERS}
    for service in ("admin", *SERVICES):
        variables |= {f"RUNSPINE_S3_{service.upper()}_{key}_KEY": "k" for key in ("ACCESS", "SECRET")}
    signing = {f"RUNSPINE_SIGNING_{service.upper()}_KEY": "s" for service in tool.SIGNING}
    signing["RUNSPINE_LOG_ROOT"] = "r"
    found: list[dict[str, Any]] = tool.secrets(
        {**variables, "RUNSPINE_DASHBOARD_TOKEN": "t", "RUNSPINE_NOTICES_TOKEN": "t", **signing, **more},
        "[]",
        "runspine",
    )
    return found


def with_minio(folder: Path) -> list[dict[str, Any]]:
    """The overlay `small` with MinIO in place of SeaweedFS."""
    copy = folder / "k8s"
    shutil.copytree(K8S, copy)
    kustomization = copy / "overlays" / "small" / "kustomization.yaml"
    text = kustomization.read_text()
    kustomization.write_text(text.replace("components/seaweedfs", "components/minio"))
    assert kustomization.read_text() != text
    return rendered("small", copy)


@pytest.mark.parametrize("s3", ["seaweedfs", "minio"])
def test_what_a_workload_refers_to_exists_or_is_a_secret_that_the_tool_makes(tmp_path: Path, s3: str) -> None:
    manifests = with_minio(tmp_path) if s3 == "minio" else rendered("small")
    made = made_secrets()
    for each in made:
        kubernetes_validate.validate(each, VERSION, strict=True)
    secrets = {each["metadata"]["name"] for each in made} | {"runspine-tls"}
    maps = of(manifests, "ConfigMap").keys()
    keys = {each["metadata"]["name"]: each["stringData"] for each in made}
    for workload in of(manifests, "Deployment", "StatefulSet", "Job").values():
        pod = workload["spec"]["template"]["spec"]
        for source in pod["containers"][0].get("envFrom", []):
            assert source.get("configMapRef", {}).get("name") in {*maps, None}
            secret = source.get("secretRef", {})
            assert secret.get("optional") or secret.get("name") in {*secrets, None}
        for variable in pod["containers"][0].get("env", []):
            if reference := variable.get("valueFrom", {}).get("secretKeyRef"):
                assert reference["key"] in keys[reference["name"]]
        for volume in pod.get("volumes", []):
            secret = volume.get("secret", {})
            assert secret.get("optional") or secret.get("secretName") in {*secrets, None}
            assert volume.get("configMap", {}).get("name") in {*maps, None}


def test_minio_is_that_of_compose_and_every_service_has_a_user_of_its_own(tmp_path: Path) -> None:
    manifests = with_minio(tmp_path)
    for manifest in manifests:
        kubernetes_validate.validate(manifest, VERSION, strict=True)
    compose = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]["s3"]
    [server] = of(manifests, "StatefulSet")["s3"]["spec"]["template"]["spec"]["containers"]
    assert server["image"] == compose["image"]
    assert {"startupProbe", "livenessProbe", "readinessProbe"} <= server.keys()
    assert server["securityContext"]["readOnlyRootFilesystem"] is True
    [port] = server["ports"]
    [listed] = of(manifests, "Service")["s3"]["spec"]["ports"]
    assert (port["containerPort"], listed["port"]) == (9000, 9000)
    for name, settings in of(manifests, "ConfigMap").items():
        if "RUNSPINE_S3_ENDPOINT" in settings["data"]:
            assert settings["data"]["RUNSPINE_S3_ENDPOINT"] == "s3:9000", name
    # The job makes the users: it gets the keys of every service, and no service gets them.
    [job] = of(manifests, "Job")["bootstrap"]["spec"]["template"]["spec"]["containers"]
    secrets = {each["metadata"]["name"]: each["stringData"] for each in made_secrets()}
    received: dict[str, str] = {each["name"]: each.get("value", "") for each in job["env"]}
    for source in job["envFrom"]:
        received |= secrets.get(source.get("secretRef", {}).get("name"), {})
    assert received["RUNSPINE_S3_USERS"] == "minio"
    assert set(service_keys(received)) == set(SERVICES)
    others = of(manifests, "Deployment", "StatefulSet").values()
    assert "runspine-s3-users" not in yaml.safe_dump_all(others)


def test_keys_of_the_users_own_are_given_to_workers_alone_and_need_not_exist() -> None:
    manifests = rendered("production")
    given = [
        name
        for name, workload in of(manifests, "Deployment", "StatefulSet").items()
        for source in workload["spec"]["template"]["spec"]["containers"][0].get("envFrom", [])
        if source.get("secretRef") == {"name": "runspine-trainers", "optional": True}
    ]
    assert given == ["worker"]
    pools = read_pools(K8S / "components" / "launcher" / "pools.yaml")
    for pool in pools.values():
        assert isinstance(pool, KubernetesPool)
        [container] = job(Run(id="01JX"), "jobs", pool, 1)["spec"]["template"]["spec"]["containers"]
        assert {"secretRef": {"name": "runspine-trainers", "optional": True}} in container["envFrom"]
    assert "runspine-trainers" not in [each["metadata"]["name"] for each in made_secrets()]
    made = {
        each["metadata"]["name"]: each["stringData"]
        for each in made_secrets(
            WANDB_API_KEY="w" * 40, HF_TOKEN="hf_token", RUNSPINE_LLM_URL="http://llm/v1"
        )
    }
    assert made["runspine-trainers"].keys() == {"WANDB_API_KEY", "HF_TOKEN", "RUNSPINE_LLM_URL"}


def test_workers_are_scaled_by_what_waits_and_what_runs() -> None:
    [scaled] = [each for each in rendered("production") if each["kind"] == "ScaledObject"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == "worker"
    [trigger] = scaled["spec"]["triggers"]
    source = "".join(path.read_text() for path in (K8S.parents[1] / "services").rglob("metrics.py"))
    for metric in ("runspine_queue_runs", "runspine_worker_busy"):
        assert metric in trigger["metadata"]["query"]
        assert f'"{metric}"' in source


@pytest.mark.parametrize("name", ["values.yaml", "values-small.yaml"])
def test_the_values_of_nats_are_drawn_from_the_permissions(name: str) -> None:
    drawn = module(K8S / "nats" / "draw.py")
    assert (K8S / "nats" / name).read_text() == drawn.render(name), "run: python deploy/k8s/nats/draw.py"
    values = yaml.safe_load((K8S / "nats" / name).read_text())
    assert values["config"]["jetstream"]["merge"]["sync_interval"] == "always"
    accounts = values["config"]["merge"]["accounts"]
    assert {user["user"] for account in accounts.values() for user in account.get("users", [])} == set(USERS)
    # No service is in the account of the streams.
    assert [user["user"] for user in accounts["RUNSPINE"]["users"]] == ["admin"]


@pytest.mark.parametrize(("name", "peers"), [("values.yaml", 2), ("values-small.yaml", 0)])
def test_a_nats_server_checks_its_store_before_it_starts(name: str, peers: int, tmp_path: Path) -> None:
    """Each server asks the others, not itself; a single one starts whatever the check finds."""
    values = yaml.safe_load((K8S / "nats" / name).read_text())
    [container] = values["podTemplate"]["merge"]["spec"]["initContainers"]
    assert container["volumeMounts"] == [{"name": "nats-js", "mountPath": "/data"}]
    recorder = tmp_path / "runspine"
    recorder.write_text('#!/bin/sh\nfor word in "$@"; do echo "$word"; done\nexit 1\n')
    recorder.chmod(0o755)
    environment = {"PATH": f"{tmp_path}:/usr/bin:/bin", "POD_NAME": "nats-1"}
    done = subprocess.run(container["command"], env=environment, capture_output=True, text=True, check=False)
    words = done.stdout.split()
    assert words[:3] == ["nats-store", "check", "/data"]
    assert ("--set-aside" in words) == bool(peers)
    assert done.returncode == (1 if peers else 0)
    if peers:
        assert words[-1] == "http://nats-0.nats-headless:8222,http://nats-2.nats-headless:8222"
        policies = of(list(yaml.safe_load_all((K8S / "base" / "network.yaml").read_text())), "NetworkPolicy")
        assert {"port": 8222} in policies["nats"]["spec"]["ingress"][1]["ports"]
        assert {"port": 8222} in policies["nats"]["spec"]["egress"][0]["ports"]


def test_the_pools_of_the_launcher_component_are_accepted_and_their_jobs_are_valid() -> None:
    pools = read_pools(K8S / "components" / "launcher" / "pools.yaml")
    run = Run(id="01JABCDEFGHJKMNPQRSTVWXYZ0", name="CartPole-v1__ppo__1__1", attempt=3, priority=80)
    for name, pool in pools.items():
        assert isinstance(pool, KubernetesPool)
        kubernetes_validate.validate(job(run, name, pool, 1), VERSION, strict=True)


def test_a_job_carries_what_the_run_and_the_pool_ask_for() -> None:
    pool = KubernetesPool.model_validate(
        {
            "launcher": "kubernetes", "namespace": "runs", "image": "i", "queue": "team-a", "ttl_seconds": 60,
            "node_selector": {"gpu": "a100"}, "priority_classes": {0: "low", 50: "high"},
            "runtime_class": "nvidia",
            "secrets": ["s"], "config_maps": ["c"], "image_pull_secrets": ["p"],
        }
    )  # fmt: skip
    spec = RunSpec(gpus=4, limits=Limits(cpus=0.5, memory_mib=1000, disk_mib=100))
    made = job(Run(id="01JX", attempt=2, priority=60, spec=spec), "gpu", pool, 1)
    kubernetes_validate.validate(made, VERSION, strict=True)
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "team-a"
    assert made["spec"]["suspend"] is True
    assert made["spec"]["ttlSecondsAfterFinished"] == 60
    pod = made["spec"]["template"]["spec"]
    assert (pod["priorityClassName"], pod["nodeSelector"]) == ("high", {"gpu": "a100"})
    [container] = pod["containers"]
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "1512Mi", "nvidia.com/gpu": "4"}
    received = {each["name"]: each["value"] for each in container["env"]}
    assert received["RUNSPINE_WORKER_ONLY_RUN"] == "01JX"


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("pools: {}", "pools"),
        ("pools: {a: {launcher: mesos}}", "pools.a"),
        ("pools: {a: {launcher: kubernetes, namespace: x, image: y, gpus: 3}}", "pools.a.kubernetes.gpus"),
        ("pools: {'a b': {launcher: ray}}", "letters"),
        ("pools: {a: {launcher: ray, limit: 0}}", "pools.a.ray.limit"),
        ("[", "not YAML"),
        ("", "file"),
    ],
)
def test_a_wrong_file_of_pools_is_refused_with_the_field(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text(text)
    with pytest.raises(PoolsFileError, match=named):
        read_pools(path)


def test_a_pool_of_ray_needs_little(tmp_path: Path) -> None:
    path = tmp_path / "pools.yaml"
    path.write_text("pools: {lab: {launcher: ray, address: 'head:6379', resources: {a100: 1}}}")
    assert read_pools(path) == {"lab": RayPool(launcher="ray", address="head:6379", resources={"a100": 1})}


def test_the_secrets_script_reports_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=b\n")
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens" / "tokens.json").write_text("[]")
    done = subprocess.run(
        [sys.executable, str(K8S / "secrets.py"), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "RUNSPINE_NATS_ORCHESTRATOR_PASSWORD" in done.stderr

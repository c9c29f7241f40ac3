"""Writes values.yaml for the NATS Helm chart from the rights in runspine/eventlog/permissions.py.

python deploy/k8s/nats/draw.py            # writes values.yaml and values-small.yaml next to this file
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from runspine.eventlog import zones
from runspine.eventlog.permissions import USERS

HERE = Path(__file__).parent
# Of the chart's own defaults for a release named nats (chart 2.14.2): the store_dir, the volume nats-js, the
# headless service nats-headless, whose addresses exist before a pod is ready, and the monitoring port 8222.
STORE = "/data"
HEAD = """\
# Written by draw.py; a change made here is lost. For the chart nats, 1.3 or newer, of
# https://nats-io.github.io/k8s/helm/charts:
#   helm upgrade --install nats nats/nats --namespace runspine --values {name}
# Passwords come from the secret runspine-nats. The image of store-check is that of the services: put your
# registry there, as in deploy/k8s/base/kustomization.yaml. Why each line is there: deploy/nats/README.md
"""


def password(user: str) -> str:
    """<< >> is the chart's sign for a value that goes into the file unquoted."""
    return f"<< $RUNSPINE_NATS_{user.upper()}_PASSWORD >>"


def values(replicas: int, disk: str) -> dict[str, Any]:
    secret = {
        f"RUNSPINE_NATS_{name.upper()}_PASSWORD": {
            "valueFrom": {
                "secretKeyRef": {"name": "runspine-nats", "key": f"RUNSPINE_NATS_{name.upper()}_PASSWORD"}
            }
        }
        for name in USERS
    }
    return {
        "config": {
            "cluster": {"enabled": replicas > 1, "replicas": replicas},
            "jetstream": {
                "enabled": True,
                "fileStore": {"pvc": {"size": disk}},
                "memoryStore": {"enabled": True, "maxSize": "64Mi"},
                # Without it acknowledged facts are lost with the power.
                "merge": {"sync_interval": "always"},
            },
            "monitor": {"enabled": True},
            "merge": {
                "max_payload": "<< 1MB >>",
                "max_connections": 8192,
                "write_deadline": "10s",
                "feature_flags": {"js_ack_fc_v2": False},
                "accounts": zones.accounts(password),
            },
        },
        "container": {
            "image": {"tag": "2.15.1-alpine"},
            "env": secret,
            "merge": {"resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "2Gi"}}},
        },
        "podTemplate": {
            "topologySpreadConstraints": {
                "kubernetes.io/hostname": {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
            },
            "merge": {"spec": {"initContainers": [store_check(replicas)]}},
        },
        "promExporter": {"enabled": True, "podMonitor": {"enabled": replicas > 1}},
        "natsBox": {"enabled": False},
    }


def service_image() -> str:
    """The one that deploy/k8s/base gives the services."""
    images = yaml.safe_load((HERE.parent / "base" / "kustomization.yaml").read_text())["images"]
    [found] = [image for image in images if image["name"] == "runspine/service"]
    return f"{found['newName']}:{found['newTag']}"


def store_check(replicas: int) -> dict[str, Any]:
    """An init container that reads every record before the server does: deploy/nats/README.md."""
    command = ["runspine", "nats-store", "check", STORE]
    if replicas > 1:
        # Its own address is not among those that must be healthy: this server is not up yet.
        names = " ".join(f"nats-{number}" for number in range(replicas))
        script = (
            f'peers=""; for name in {names}; do '
            f'[ "$name" = "$POD_NAME" ] || peers="$peers${{peers:+,}}http://$name.nats-headless:8222"; done; '
            f'exec {" ".join(command)} --set-aside --peers "$peers"'
        )
    else:
        # Without a second copy the operator decides; the server starts with what it has.
        script = f"{' '.join(command)} || true"
    return {
        "name": "store-check",
        "image": service_image(),
        "command": ["sh", "-ec", script],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        # The server runs as root in its image, and its files are for root alone.
        "securityContext": {
            "runAsUser": 0,
            "runAsGroup": 0,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        },
        "resources": {"requests": {"cpu": "1", "memory": "512Mi"}, "limits": {"memory": "512Mi"}},
        "volumeMounts": [{"name": "nats-js", "mountPath": STORE}],
    }


FILES = {"values.yaml": values(3, "100Gi"), "values-small.yaml": values(1, "20Gi")}


def render(name: str) -> str:
    return HEAD.format(name=name) + yaml.safe_dump(FILES[name], sort_keys=False, width=110)


if __name__ == "__main__":
    for file in FILES:
        (HERE / file).write_text(render(file))

"""Writes values.yaml for the NATS Helm chart from the rights in runspine/eventlog/permissions.py.

python deploy/k8s/nats/draw.py            # writes values.yaml and values-small.yaml next to this file
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from runspine.eventlog.permissions import USERS, NatsRights

HERE = Path(__file__).parent
HEAD = """\
# Written by draw.py; a change made here is lost. For the chart nats, 1.3 or newer, of
# https://nats-io.github.io/k8s/helm/charts:
#   helm upgrade --install nats nats/nats --namespace runspine --values {name}
# Passwords come from the secret runspine-nats; why each line is there: deploy/nats/README.md
"""


def user(name: str, rights: NatsRights) -> dict[str, Any]:
    publish: dict[str, Any] = {"allow": list(rights.publish)}
    if rights.never_publish:
        publish["deny"] = list(rights.never_publish)
    # << >> is the chart's sign for a value that goes into the file unquoted.
    password = f"<< $RUNSPINE_NATS_{name.upper()}_PASSWORD >>"
    permissions = {"publish": publish, "subscribe": {"allow": list(rights.subscribe)}}
    return {"user": name, "password": password, "permissions": permissions}


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
                "accounts": {
                    "RUNSPINE": {
                        "jetstream": "enabled",
                        "users": [user(name, rights) for name, rights in USERS.items()],
                    }
                },
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
            }
        },
        "promExporter": {"enabled": True, "podMonitor": {"enabled": replicas > 1}},
        "natsBox": {"enabled": False},
    }


FILES = {"values.yaml": values(3, "100Gi"), "values-small.yaml": values(1, "20Gi")}


def render(name: str) -> str:
    return HEAD.format(name=name) + yaml.safe_dump(FILES[name], sort_keys=False, width=110)


if __name__ == "__main__":
    for file in FILES:
        (HERE / file).write_text(render(file))

"""The secrets of a cluster from what `runspine secrets` has made, each service its own.

runspine secrets --directory secrets
python deploy/k8s/secrets.py secrets | kubectl apply -f -
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import yaml

from runspine.storage.bucket_rights import S3Key, seaweed_identities

BUCKET = "runspine"
# Services that speak to NATS, and to S3.
ON_NATS = ("orchestrator", "telemetry", "artifacts", "janitor", "worker", "launcher", "notices")
ON_S3 = ("orchestrator", "telemetry", "artifacts", "janitor", "worker")
# Services that write facts, which they sign.
SIGNING = ("orchestrator", "artifacts", "janitor", "worker", "notices", "launcher")
# What workers pass on to runs that ask for it; a secret is made of those that .env has.
FOR_TRAINERS = (
    "WANDB_API_KEY",
    "HF_TOKEN",
    "WANDB_VPN_HTTP_PROXY",
    "WANDB_VPN_HTTPS_PROXY",
    "RUNSPINE_WANDB_PROXY",
    "RUNSPINE_LLM_URL",
    "RUNSPINE_LLM_MODEL",
    "RUNSPINE_LLM_KEY",
    "RUNSPINE_LLM_TIMEOUT",
    "RUNSPINE_LLM_OPTIONS",
)


def secret(name: str, values: dict[str, str], namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {"app.kubernetes.io/part-of": "runspine"},
        },
        "type": "Opaque",
        "stringData": values,
    }


def secrets(variables: dict[str, str], tokens: str, namespace: str) -> list[dict[str, Any]]:
    """Raises KeyError with the name of what is missing."""
    found = []
    for service in ON_NATS:
        values = {
            "RUNSPINE_NATS_USER": service,
            "RUNSPINE_NATS_PASSWORD": variables[f"RUNSPINE_NATS_{service.upper()}_PASSWORD"],
        }
        if service in ON_S3:
            values["RUNSPINE_S3_ACCESS_KEY"] = variables[f"RUNSPINE_S3_{service.upper()}_ACCESS_KEY"]
            values["RUNSPINE_S3_SECRET_KEY"] = variables[f"RUNSPINE_S3_{service.upper()}_SECRET_KEY"]
        values["RUNSPINE_LOG_ROOT"] = variables["RUNSPINE_LOG_ROOT"]
        if service in SIGNING:
            values["RUNSPINE_SIGNING_KEY"] = variables[f"RUNSPINE_SIGNING_{service.upper()}_KEY"]
        if service == "notices":
            values["RUNSPINE_TOKEN"] = variables["RUNSPINE_NOTICES_TOKEN"]
        found.append(secret(f"runspine-{service}", values, namespace))
    page = {
        "RUNSPINE_TOKEN": variables["RUNSPINE_DASHBOARD_TOKEN"],
        "RUNSPINE_NATS_USER": "dashboard",
        "RUNSPINE_NATS_PASSWORD": variables["RUNSPINE_NATS_DASHBOARD_PASSWORD"],
    }
    admin = S3Key(variables["RUNSPINE_S3_ADMIN_ACCESS_KEY"], variables["RUNSPINE_S3_ADMIN_SECRET_KEY"])
    keys = {
        name: S3Key(*(variables[f"RUNSPINE_S3_{name.upper()}_{part}_KEY"] for part in ("ACCESS", "SECRET")))
        for name in ON_S3
    }
    users = {
        f"RUNSPINE_S3_{name.upper()}_{part}_KEY": value
        for name, key in keys.items()
        for part, value in (("ACCESS", key.access), ("SECRET", key.secret))
    }
    trainers = {name: variables[name] for name in FOR_TRAINERS if name in variables}
    bootstrap = {"RUNSPINE_S3_ADMIN_ACCESS_KEY": admin.access, "RUNSPINE_S3_ADMIN_SECRET_KEY": admin.secret}
    passwords = {name: value for name, value in variables.items() if name.startswith("RUNSPINE_NATS_")}
    return [
        *found,
        secret("runspine-dashboard", page, namespace),
        secret("runspine-nats", passwords, namespace),
        # For an S3 of the cluster's own; of no use with another.
        secret("runspine-s3", {"s3.json": json.dumps(seaweed_identities(BUCKET, keys, admin))}, namespace),
        secret("runspine-bootstrap", bootstrap, namespace),
        # The same for MinIO, whose users the bootstrap makes.
        secret("runspine-s3-users", users, namespace),
        *([secret("runspine-trainers", trainers, namespace)] if trainers else []),
        secret("runspine-tokens", {"tokens.json": tokens}, namespace),
    ]


def read_variables(path: Path) -> dict[str, str]:
    pairs = (line.partition("=") for line in path.read_text().splitlines() if not line.startswith("#"))
    return {name.strip(): value.strip() for name, mark, value in pairs if mark and value.strip()}


def main() -> int:
    parser = argparse.ArgumentParser(description="Kubernetes secrets from a folder of `runspine secrets`.")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--namespace", default="runspine")
    given = parser.parse_args()
    try:
        variables = read_variables(given.directory / ".env")
        tokens = (given.directory / "tokens" / "tokens.json").read_text()
        made = secrets(variables, tokens, given.namespace)
    except OSError as error:
        sys.stderr.write(f"{error.filename}: {error.strerror}; make it with `runspine secrets`\n")
        return 2
    except KeyError as error:
        sys.stderr.write(f"{given.directory / '.env'} lacks {error}; run `runspine secrets` again\n")
        return 2
    yaml.safe_dump_all(made, sys.stdout, sort_keys=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Who may touch what in the bucket: one S3 user per service, each with its own prefixes alone.

One table, written down for two kinds of server: as IAM policies (MinIO, AWS and others) and as
SeaweedFS identities. The server enforces it, whatever a service does wrong.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BucketRights:
    """Prefixes, each with its closing slash. An empty prefix is the whole bucket."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    list: tuple[str, ...] = ()

    def prefixes(self) -> set[str]:
        return {*self.read, *self.write, *self.remove, *self.list}


def _owner(*prefixes: str, lists: tuple[str, ...] = ()) -> BucketRights:
    return BucketRights(read=prefixes, write=prefixes, remove=prefixes, list=lists or prefixes)


SERVICES: dict[str, BucketRights] = {
    "orchestrator": _owner("snapshots/orchestrator/"),
    "telemetry": _owner("telemetry/"),
    # It counts what lies in the whole bucket, and reads and removes its own prefixes only.
    "artifacts": _owner("artifacts/", "trash/", "scrub/", "canary/", "snapshots/artifacts/", lists=("",)),
    # Checkpoints of other workers are what it resumes from. It removes nothing: pruning is not its work.
    "worker": BucketRights(
        read=("artifacts/", "probes/"), write=("artifacts/", "probes/"), list=("artifacts/",)
    ),
}
# The dashboard asks the services and has no word with S3.


@dataclass(frozen=True, slots=True)
class Key:
    """What a user of the S3 server signs with."""

    access: str
    secret: str

    def __repr__(self) -> str:
        return f"Key({self.access!r}, …)"


def iam_policy(bucket: str, rights: BucketRights) -> dict[str, Any]:
    """As MinIO and AWS read it."""
    objects = f"arn:aws:s3:::{bucket}/"
    statements: list[dict[str, Any]] = []
    for actions, prefixes in (
        (["s3:GetObject"], rights.read),
        (["s3:PutObject", "s3:AbortMultipartUpload", "s3:ListMultipartUploadParts"], rights.write),
        (["s3:DeleteObject"], rights.remove),
    ):
        if prefixes:
            resources = [f"{objects}{prefix}*" for prefix in prefixes]
            statements.append({"Effect": "Allow", "Action": actions, "Resource": resources})
    statements.append(_listing(bucket, rights))
    # Without a name to look at, this tells that the bucket is there and no more.
    place = {"Effect": "Allow", "Action": ["s3:GetBucketLocation"], "Resource": [objects.rstrip("/")]}
    return {"Version": "2012-10-17", "Statement": [*statements, place]}


def _listing(bucket: str, rights: BucketRights) -> dict[str, Any]:
    listing: dict[str, Any] = {
        "Effect": "Allow",
        "Action": ["s3:ListBucket", "s3:ListBucketMultipartUploads"],
        "Resource": [f"arn:aws:s3:::{bucket}"],
    }
    if "" not in rights.list:
        listing["Condition"] = {"StringLike": {"s3:prefix": [f"{prefix}*" for prefix in rights.list]}}
    return listing


def seaweed_identities(bucket: str, keys: Mapping[str, Key], admin: Key) -> dict[str, Any]:
    """The file for `weed … -s3.config`. Its word for removing is Write: it has none of its own."""
    people = [_identity("admin", admin, ["Admin", "Read", "Write", "List", "Tagging"])]
    for name, rights in SERVICES.items():
        actions = [
            *_actions("Read", bucket, rights.read),
            *_actions("Write", bucket, (*rights.write, *rights.remove)),
            *_actions("List", bucket, rights.list),
        ]
        people.append(_identity(name, keys[name], actions))
    return {"identities": people}


def _actions(verb: str, bucket: str, prefixes: tuple[str, ...]) -> list[str]:
    return [
        f"{verb}:{bucket}/{prefix}*" if prefix else f"{verb}:{bucket}" for prefix in dict.fromkeys(prefixes)
    ]


def _identity(name: str, key: Key, actions: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "credentials": [{"accessKey": key.access, "secretKey": key.secret}],
        "actions": actions,
    }


if __name__ == "__main__":
    bucket = sys.argv[1] if len(sys.argv) > 1 else "runspine"
    policies = {name: iam_policy(bucket, rights) for name, rights in SERVICES.items()}
    sys.stdout.write(json.dumps(policies, indent=2) + "\n")

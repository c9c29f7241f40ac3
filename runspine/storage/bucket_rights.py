"""Rights in the bucket: one S3 user per service, each limited to its own prefixes.

One table is rendered for two kinds of server: as IAM policies (MinIO, AWS and others) and as SeaweedFS
identities. The server enforces it, even when a service has a bug.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BucketRights:
    """Prefixes that a user may access, each with a closing slash; an empty one is the whole bucket."""

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()
    remove: tuple[str, ...] = ()
    list: tuple[str, ...] = ()

    def prefixes(self) -> set[str]:
        return {*self.read, *self.write, *self.remove, *self.list}


def _owner(*prefixes: str, lists: tuple[str, ...] = ()) -> BucketRights:
    return BucketRights(read=prefixes, write=prefixes, remove=prefixes, list=lists or prefixes)


_ARTIFACTS = ("artifacts/", "code/", "trash/", "scrub/", "canary/", "snapshots/artifacts/")
# Witnesses of the log; no service may remove one.
_ANCHORS = "anchors/"
SERVICES: dict[str, BucketRights] = {
    "orchestrator": _owner("snapshots/orchestrator/"),
    "telemetry": _owner("telemetry/"),
    # It counts the objects of the whole bucket, and reads and removes only its own prefixes.
    "artifacts": BucketRights(
        read=(*_ARTIFACTS, "packages/", _ANCHORS),
        write=(*_ARTIFACTS, _ANCHORS),
        remove=_ARTIFACTS,
        list=("",),
    ),
    # It moves objects to the trash, back, and removes them; it starts from the catalog's snapshot.
    "janitor": BucketRights(
        read=("artifacts/", "trash/", "snapshots/artifacts/", _ANCHORS),
        write=("artifacts/", "trash/", _ANCHORS),
        remove=("artifacts/", "trash/"),
        list=("artifacts/", "trash/", "snapshots/artifacts/", _ANCHORS),
    ),
    # It resumes from checkpoints of other workers. It writes and removes none: the artifacts service signs
    # each request of an upload (services/artifacts/core/upload_rights.py).
    "worker": BucketRights(
        read=("artifacts/", "code/", "packages/", "probes/"),
        write=("packages/", "probes/"),
        list=("artifacts/",),
    ),
}
# The dashboard has no user: it calls the services and not S3.


@dataclass(frozen=True, slots=True)
class S3Key:
    """Access key and secret of an S3 user."""

    access: str
    secret: str

    def __repr__(self) -> str:
        return f"S3Key({self.access!r}, …)"


def iam_policy(bucket: str, rights: BucketRights) -> dict[str, Any]:
    """The rights as an IAM policy, for MinIO and AWS."""
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
    # The client reads the location of the bucket, which reveals no object.
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


def seaweed_identities(bucket: str, keys: Mapping[str, S3Key], admin: S3Key) -> dict[str, Any]:
    """The file for `weed … -s3.config`. SeaweedFS has no right to remove: Write includes it."""
    users = [_identity("admin", admin, ["Admin", "Read", "Write", "List", "Tagging"])]
    for name, rights in SERVICES.items():
        actions = [
            *_actions("Read", bucket, rights.read),
            *_actions("Write", bucket, (*rights.write, *rights.remove)),
            *_actions("List", bucket, rights.list),
        ]
        users.append(_identity(name, keys[name], actions))
    return {"identities": users}


def _actions(verb: str, bucket: str, prefixes: tuple[str, ...]) -> list[str]:
    return [
        f"{verb}:{bucket}/{prefix}*" if prefix else f"{verb}:{bucket}" for prefix in dict.fromkeys(prefixes)
    ]


def _identity(name: str, key: S3Key, actions: list[str]) -> dict[str, Any]:
    return {
        "name": name,
        "credentials": [{"accessKey": key.access, "secretKey": key.secret}],
        "actions": actions,
    }


if __name__ == "__main__":
    bucket = sys.argv[1] if len(sys.argv) > 1 else "runspine"
    policies = {name: iam_policy(bucket, rights) for name, rights in SERVICES.items()}
    sys.stdout.write(json.dumps(policies, indent=2) + "\n")

"""Keys of artifacts in the bucket: each object is named by the SHA-256 of its bytes."""

from __future__ import annotations

import base64
import re

ARTIFACTS_PREFIX = "artifacts/sha256/"
# Objects of pruned artifacts stay here while the prune can be undone.
TRASH_PREFIX = "trash/sha256/"
# Files of code trees, and the manifests of the trees; apart from artifacts, because no rule prunes them.
CODE_PREFIX = "code/"
# Lists of installed packages, which attempts refer to.
PACKAGES_PREFIX = "packages/"

# What a request to S3 states of its body when it does not state the digest.
UNSIGNED = "UNSIGNED-PAYLOAD"

_DIGEST = re.compile(r"[0-9a-f]{64}\Z")
_BY_DIGEST = re.compile(r"(?:artifacts|trash)/sha256/[0-9a-f]{2}/([0-9a-f]{64})\Z")


def artifact_key(digest: str) -> str:
    """The key of an artifact's bytes."""
    return f"{ARTIFACTS_PREFIX}{digest[:2]}/{digest}"


def checksum(digest: str) -> str:
    """The digest as S3 takes it in the header x-amz-checksum-sha256."""
    return base64.b64encode(bytes.fromhex(digest)).decode()


def trash_key(digest: str) -> str:
    """The key of the same bytes in the trash."""
    return f"{TRASH_PREFIX}{digest[:2]}/{digest}"


def code_key(digest: str, *, tree: bool = False) -> str:
    """The key of a file of a code tree, or of a tree's manifest."""
    return f"{CODE_PREFIX}{'trees' if tree else 'files'}/{digest[:2]}/{digest}"


def packages_key(digest: str) -> str:
    """The key of a list of packages."""
    return f"{PACKAGES_PREFIX}{digest[:2]}/{digest}"


def code_digest_in(key: str) -> str:
    """The SHA-256 that a key of code or of a list of packages names; empty for other keys."""
    digest = key.rpartition("/")[2]
    return digest if key.startswith((CODE_PREFIX, PACKAGES_PREFIX)) and _DIGEST.match(digest) else ""


def digest_in(key: str) -> str:
    """The SHA-256 that a key names; empty for a key of another form."""
    found = _BY_DIGEST.match(key)
    return found[1] if found else ""

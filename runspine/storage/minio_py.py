"""The minio client, imported without that of the administration API, which loads two libraries of ciphers."""

from __future__ import annotations

from types import ModuleType

from runspine.hidden_modules import hidden

_no_administration = ModuleType("minio.minioadmin")
vars(_no_administration)["MinioAdmin"] = None

with hidden("minio.minioadmin", stand_in=_no_administration):
    from minio import Minio
    from minio.commonconfig import COMPLIANCE, ComposeSource, CopySource
    from minio.credentials.providers import StaticProvider
    from minio.error import InvalidResponseError, MinioException, S3Error, ServerError
    from minio.retention import Retention
    from minio.signer import sign_v4_s3

__all__ = [
    "COMPLIANCE",
    "ComposeSource",
    "CopySource",
    "InvalidResponseError",
    "Minio",
    "MinioException",
    "Retention",
    "S3Error",
    "ServerError",
    "StaticProvider",
    "sign_v4_s3",
]

"""Runs and their data for Python programs and notebooks: `runspine.Api` and `runspine.AsyncApi`."""

from __future__ import annotations

from runspine.api.async_client import AsyncApi, AsyncRunHandle
from runspine.api.client import Api
from runspine.api.fields import LogEntry, RunChange
from runspine.api.files import StoredFile
from runspine.api.run_handles import RunHandle, RunList

__all__ = [
    "Api",
    "AsyncApi",
    "AsyncRunHandle",
    "LogEntry",
    "RunChange",
    "RunHandle",
    "RunList",
    "StoredFile",
]

"""Whether the log is whole by its chains and signatures, as `runspine events verify` finds it."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

from tests.chaos.cluster.site import ClusterSite


async def verify_log(site: ClusterSite) -> dict[str, Any]:
    """Commits, signed ones and unsigned ones of all streams, and each problem in a line."""
    environment = {
        **os.environ,
        "RUNSPINE_ADDRESS": site.addresses["orchestrator"],
        "RUNSPINE_TOKEN": site.token,
        "RUNSPINE_LOG_ROOT": site.cluster.log_root,
        # The network is closed by itself.
        "RUNSPINE_ALLOW_PLAINTEXT": "true",
    }
    process = await asyncio.create_subprocess_exec(
        *[sys.executable, "-m", "runspine", "events", "verify", "--json"],
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    emitted, errors = await process.communicate()
    try:
        found = json.loads(emitted)
    except ValueError:
        return {"flaws": [f"events verify: exit code {process.returncode}: {errors.decode()[-1500:]}"]}
    streams = found["streams"].values()
    problems = [
        f"{each['stream']} {each['sequence']} {each['subject']}: {each['what']}" for each in found["flaws"]
    ]
    return {
        "commits": sum(each["commits"] for each in streams),
        "signed": sum(each["signed"] for each in streams),
        "unsigned": sum(each["unsigned"] for each in streams),
        "flaws": [*problems, *([found["damage"]] if found["damage"] else [])],
    }

"""`make chaos TOPOLOGY=cluster`: the deployment of deploy/k8s/base, every part of it broken, and the verdict.

`python -m tests.chaos.cluster --seconds 1800 --seed 7`. Two thirds of the time faults strike one at a time,
so that the time without service is known for each; then they overlap. History, recorded calls and verdict
are kept in build/chaos. Needs root, for network namespaces and disks; it makes its own network and leaves
nothing behind.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.chaos.cluster.campaign import Campaign, Options
from tests.chaos.cluster.gaps import table
from tests.kit.servers.network import missing, own_network

KEPT = Path("build/chaos")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--runs", type=int, default=24, help="in flight")
    parser.add_argument("--partitions", type=int, default=1, choices=(1, 2), help="of the telemetry service")
    parser.add_argument("--older", default="", help="a Python with an older release, for upgrades")
    parser.add_argument("--only", default="", help="kinds of faults, separated by commas")
    parser.add_argument(
        "--unchecked", action="store_true", help="start nats-servers without the check of their stores"
    )
    options = parser.parse_args()
    if reason := missing():
        print(f"not run: {reason}", file=sys.stderr)
        return 2
    if options.seed is None:
        options.seed = random.randrange(1 << 31)
    words = [f"--{name}={value}" for name, value in vars(options).items() if name != "unchecked"]
    words += ["--unchecked"] if options.unchecked else []
    code = own_network(["-m", "tests.chaos.cluster", *words])
    if code is not None:
        return code
    KEPT.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="cluster-", ignore_cleanup_errors=True) as folder:
        chosen = Options(**vars(options))
        verdict = asyncio.run(_until_ended(Campaign(chosen, Path(folder), KEPT)))
    path = KEPT / f"cluster-verdict-{options.seed}.json"
    path.write_text(json.dumps(verdict, indent=1))
    print(summary(verdict))
    return int(bool(verdict["wrong"]))


async def _until_ended(campaign: Campaign) -> dict[str, Any]:
    """Ended by SIGTERM, it ends what it has started, as it does by SIGINT."""
    task = asyncio.current_task()
    assert task
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await campaign.run()


def summary(verdict: dict[str, Any]) -> str:
    """The verdict in lines, with the table of docs/faults.md."""
    long = ("gaps", "examples", "contradictions", "wrong", "crashes", "each")
    lines = [f"{name}: {value}" for name, value in verdict.items() if name not in long]
    return "\n".join(
        [
            *lines,
            "",
            table(verdict["gaps"]),
            "",
            *verdict["wrong"],
            "clean" if not verdict["wrong"] else "NOT clean",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
